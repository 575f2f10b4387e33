"""Where files are found, and what becomes of broken ones."""

import hashlib
import http.server
import io
import json
import logging
import os
import socket
import tarfile
import threading
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tardis_core.data import files
from tardis_core.errors import UserError

CONTENT = {"one.txt": b"first file\n" * 50, "two.txt": b"second file\n" * 50}


class _Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT, spoilt in the way that the first part of the path names."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        _, how, name = self.path.split("/")
        if how == "gone":
            self.send_error(404)
            return
        body = CONTENT[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write({"cut": body[:100], "altered": body[::-1]}.get(how, body))

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TARDIS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("TARDIS_DATA", raising=False)
    monkeypatch.delenv("TARDIS_OFFLINE", raising=False)
    return tmp_path / "cache"


def remote(name: str, *urls: str) -> files.RemoteFile:
    body = CONTENT[name]
    return files.RemoteFile(name, hashlib.sha256(body).hexdigest(), len(body), urls)


def both(server=None, how: str = "good") -> list[files.RemoteFile]:
    if server is None:
        return [remote(name) for name in CONTENT]
    root = f"http://127.0.0.1:{server.server_port}/{how}"
    return [remote(name, f"{root}/{name}") for name in CONTENT]


def put(place: Path, *names: str) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    for name in names or CONTENT:
        (place / name).write_bytes(CONTENT[name])
    return place


def everything_below(place: Path) -> list[str]:
    return sorted(p.name for p in place.rglob("*") if p.is_file())


# --- Where the directories are


@pytest.mark.parametrize("source", files.SOURCES)
def test_a_known_source_is_accepted(source):
    files.check_source(source)


def test_an_unknown_source_names_the_choices():
    with pytest.raises(UserError, match=r"'fake'.*auto, real, standin"):
        files.check_source("fake")


def test_the_cache_is_the_variable_then_xdg_then_home(monkeypatch, tmp_path):
    assert files.cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("TARDIS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert files.cache_dir() == tmp_path / "xdg" / "tardis"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert files.cache_dir() == tmp_path / ".cache" / "tardis"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert files.cache_dir() == tmp_path / ".cache" / "tardis"


def test_the_argument_goes_before_the_variable(monkeypatch, tmp_path):
    assert files.data_dir(None) is None
    monkeypatch.setenv("TARDIS_DATA", str(put(tmp_path / "variable")))
    assert files.data_dir(None) == tmp_path / "variable"
    assert files.data_dir(put(tmp_path / "argument")) == tmp_path / "argument"


def test_a_data_directory_that_is_not_one_is_named(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        files.data_dir(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"one\.txt"):
        files.data_dir(put(tmp_path) / "one.txt")


# --- The order of lookup


def test_the_folder_goes_before_the_directory_itself_and_that_before_the_cache(tmp_path, cache):
    put(cache / "set")
    assert files.find("set", both())["one.txt"] == cache / "set" / "one.txt"
    put(tmp_path / "data")
    assert files.find("set", both(), directory=tmp_path / "data") == {
        name: tmp_path / "data" / name for name in CONTENT
    }
    put(tmp_path / "data" / "set")
    actual = files.find("set", both(), directory=tmp_path / "data")
    assert actual["two.txt"] == tmp_path / "data" / "set" / "two.txt"


def test_a_data_directory_without_the_data_set_falls_through_to_the_cache(tmp_path, cache):
    put(cache / "set")
    (tmp_path / "data").mkdir()
    actual = files.find("set", both(), directory=tmp_path / "data")
    assert actual["one.txt"] == cache / "set" / "one.txt"


def test_what_is_there_is_not_downloaded(server, cache):
    put(cache / "set")
    assert files.find("set", both(server))
    assert server.asked == []


def test_a_part_of_a_data_set_names_what_is_missing(tmp_path):
    put(tmp_path / "set", "one.txt")
    with pytest.raises(UserError, match=r"two\.txt is missing.*--data standin"):
        files.find("set", both(), directory=tmp_path)


def test_the_data_directory_is_never_written(tmp_path):
    put(tmp_path / "data" / "set")
    files.find("set", both(), directory=tmp_path / "data")
    assert everything_below(tmp_path) == sorted(CONTENT)


# --- Broken files


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (CONTENT["one.txt"][:-1], "expected 550 bytes, found 549 bytes"),
        (CONTENT["one.txt"][::-1], r"expected SHA-256 \w{12}\.\.\., found SHA-256 \w{12}"),
        (b"", "found 0 bytes"),
    ],
)
@pytest.mark.parametrize("where", ["data/set", "cache/set"])
def test_a_broken_file_is_an_error_that_says_what_to_do(tmp_path, server, where, body, message):
    (tmp_path / "data").mkdir()
    broken = put(tmp_path / where) / "one.txt"
    broken.write_bytes(body)
    with pytest.raises(UserError, match=message) as error:
        files.find("set", both(server), directory=tmp_path / "data")
    assert str(broken) in str(error.value)
    assert "delete it" in str(error.value)
    assert "--data standin" in str(error.value)
    assert broken.read_bytes() == body
    assert server.asked == []


def test_the_cache_is_verified_again_only_when_a_file_changed(cache):
    put(cache / "set")
    files.find("set", both())
    one = cache / "set" / "one.txt"
    before = one.stat()
    one.write_bytes(one.read_bytes()[::-1])
    os.utime(one, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files.find("set", both())  # nothing shows that it changed: it was not read
    os.utime(one, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(UserError, match="altered"):
        files.find("set", both())


@pytest.mark.parametrize("where", ["data", "cache"])
def test_a_folder_that_may_not_be_read_is_named(tmp_path, monkeypatch, where):
    place, is_file = put(tmp_path / where / "set"), Path.is_file

    def refuse(self: Path) -> bool:
        if self.parent == place:
            raise PermissionError(13, "Permission denied", str(self))
        return is_file(self)

    monkeypatch.setattr(Path, "is_file", refuse)
    (tmp_path / "data").mkdir(exist_ok=True)
    with pytest.raises(UserError, match=f"{place} cannot be read; fix its permissions"):
        files.find("set", both(), directory=tmp_path / "data")


@pytest.mark.parametrize("sidecar", [b"", b"[1]", b"{", b'{"one.txt": 1}'])
def test_a_spoilt_record_of_verification_is_made_anew(cache, sidecar):
    (put(cache / "set") / ".verified.json").write_bytes(sidecar)
    assert files.find("set", both())
    assert set(json.loads((cache / "set" / ".verified.json").read_bytes())) == set(CONTENT)


# --- Downloads


def test_a_download_lands_in_the_cache(server, cache):
    actual = files.find("set", both(server))
    assert {name: path.read_bytes() for name, path in actual.items()} == CONTENT
    assert everything_below(cache) == sorted(CONTENT)
    assert files.find("set", both(server)) == actual
    assert server.asked == ["/good/one.txt", "/good/two.txt"]


def test_only_what_the_cache_lacks_is_downloaded(server, cache):
    put(cache / "set", "one.txt")
    assert files.find("set", both(server))
    assert server.asked == ["/good/two.txt"]


@pytest.mark.parametrize("first", ["gone", "cut"])
def test_the_second_address_is_tried_when_the_first_fails(server, first):
    root = f"http://127.0.0.1:{server.server_port}"
    file = remote("one.txt", f"{root}/{first}/one.txt", f"{root}/good/one.txt")
    assert files.find("set", [file])["one.txt"].read_bytes() == CONTENT["one.txt"]


def test_nothing_to_be_had_is_none_and_soon(cache):
    start = time.monotonic()
    with socket.socket() as closed:  # a port that was free a moment ago refuses
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    urls = (f"http://127.0.0.1:{port}/one.txt", f"http://127.0.0.1:{port}/two.txt")
    assert files.find("set", [remote("one.txt", *urls)]) is None
    assert time.monotonic() - start < 5
    assert everything_below(cache) == []


def test_after_the_first_failure_the_other_files_are_not_asked_for(server):
    assert files.find("set", both(server, "gone")) is None
    assert server.asked == ["/gone/one.txt"]


@pytest.mark.parametrize("how", ["variable", "argument"])
def test_downloads_can_be_off(server, monkeypatch, how):
    if how == "variable":
        monkeypatch.setenv("TARDIS_OFFLINE", "1")
    assert files.find("set", both(server), download=how == "variable") is None
    assert server.asked == []


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("altered", "not the published file: expected SHA-256"),
        ("cut", "broke off after 100 of 550 bytes.*run the command again"),
    ],
)
def test_a_bad_download_is_an_error_and_leaves_nothing(server, cache, how, message):
    with pytest.raises(UserError, match=message):
        files.find("set", both(server, how))
    assert everything_below(cache) == []


def test_a_wrong_checksum_is_not_covered_up_by_the_next_address(server):
    root = f"http://127.0.0.1:{server.server_port}"
    file = remote("one.txt", f"{root}/altered/one.txt", f"{root}/good/one.txt")
    with pytest.raises(UserError, match="altered/one"):
        files.find("set", [file])


def test_a_cache_that_cannot_be_written_says_how_to_name_another(server, cache):
    cache.write_text("a file where a directory should be")
    with pytest.raises(UserError, match="TARDIS_CACHE"):
        files.find("set", both(server))


def test_writing_is_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "file"
    files.write_atomically(path, b"old")
    with pytest.raises(TypeError):
        files.write_atomically(path, "text is not bytes")
    assert path.read_bytes() == b"old"
    assert everything_below(tmp_path) == ["file"]
    assert files.sha256_of(path) == hashlib.sha256(b"old").hexdigest()


# --- The stand-in is said, once


def test_the_stand_in_is_said_once_in_a_process(caplog):
    with caplog.at_level(logging.WARNING, "tardis_core"):
        for _ in range(2):
            files.fall_back("said-once", ["a.txt"], directory=None, source="auto")
    assert len(caplog.messages) == 1
    for word in ("said-once", "stand-in", "--data-dir", "TARDIS_DATA"):
        assert word in caplog.text


def test_real_without_data_says_what_was_looked_for_and_where(tmp_path, cache):
    with pytest.raises(UserError) as error:
        files.fall_back("set", ["a.txt"], directory=tmp_path, source="real")
    for word in ("a.txt", str(tmp_path / "set"), str(cache / "set"), "--data-dir", "standin"):
        assert word in str(error.value)


# --- Archives


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return path


def make_tar(path: Path, members: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            info.size = len(body) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(body))
    return path


ARCHIVES = [("a.zip", make_zip), ("a.tar", make_tar), ("a.tar.gz", make_tar)]


@pytest.mark.parametrize(("name", "make"), ARCHIVES)
def test_only_the_named_members_are_unpacked(tmp_path, name, make):
    archive = make(tmp_path / name, {"in/one": b"1", "in/two": b"2", "../three": b"3"})
    files.unpack(archive, ["in/one"], tmp_path / "out")
    assert everything_below(tmp_path / "out") == ["one"]
    assert (tmp_path / "out" / "in" / "one").read_bytes() == b"1"


@pytest.mark.parametrize(("name", "make"), ARCHIVES)
@pytest.mark.parametrize(
    "member", ["../evil", "/evil", "in/../../evil", "..\\evil", "C:\\evil", "C:evil", "..", ".", ""]
)
def test_a_member_outside_the_target_is_refused(tmp_path, name, make, member):
    archive = make(tmp_path / name, {member or "x": b"evil"})
    with pytest.raises(UserError, match="not below"):
        files.unpack(archive, [member], tmp_path / "out")
    assert everything_below(tmp_path) == [name]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
)
def test_a_tar_member_that_is_no_plain_file_is_refused(tmp_path, kind):
    archive = make_tar(tmp_path / "a.tar", {"member": b""}, kind)
    with pytest.raises(UserError, match="plain file"):
        files.unpack(archive, ["member"], tmp_path / "out")
    assert everything_below(tmp_path) == ["a.tar"]


@pytest.mark.parametrize("mode", [0o120777, 0o020666, 0o040755])
def test_a_zip_member_that_is_no_plain_file_is_refused(tmp_path, mode):
    info = zipfile.ZipInfo("member")
    info.external_attr = mode << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, b"/etc/passwd")
    with pytest.raises(UserError, match="plain file"):
        files.unpack(tmp_path / "a.zip", ["member"], tmp_path / "out")
    assert everything_below(tmp_path) == ["a.zip"]


def test_a_link_in_the_target_is_not_followed_out_of_it(tmp_path):
    archive = make_zip(tmp_path / "a.zip", {"in/one": b"1"})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "in").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="link"):
        files.unpack(archive, ["in/one"], tmp_path / "out")
    assert everything_below(tmp_path / "elsewhere") == []


@pytest.mark.parametrize(("name", "make"), ARCHIVES)
@pytest.mark.parametrize("part", [0.0, 0.5, 0.9])
def test_a_truncated_archive_is_an_error_and_leaves_nothing(tmp_path, name, make, part):
    body = hashlib.shake_256(b"noise").digest(20_000)  # cannot be compressed away
    archive = make(tmp_path / name, {"member": body})
    archive.write_bytes(archive.read_bytes()[: int(part * len(body))])
    with pytest.raises(UserError, match=r"a\..*download it again"):
        files.unpack(archive, ["member"], tmp_path / "out")
    assert everything_below(tmp_path) == [name]


@pytest.mark.parametrize(("name", "make"), ARCHIVES)
def test_a_member_that_is_not_there_is_named(tmp_path, name, make):
    with pytest.raises(UserError, match="no member 'absent'"):
        files.unpack(make(tmp_path / name, {"member": b""}), ["absent"], tmp_path / "out")


_NAMES = st.lists(st.sampled_from(["..", ".", "a", "b", "", "C:", "~"]), min_size=1, max_size=5)


@pytest.mark.slow
@given(parts=_NAMES, slash=st.sampled_from(["/", "\\"]), zipped=st.booleans())
@example(parts=["..", "..", "evil"], slash="/", zipped=True)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_is_ever_written_outside_the_target(tmp_path_factory, parts, slash, zipped):
    root = tmp_path_factory.mktemp("unpack")
    member = slash.join(parts)
    make = make_zip if zipped else make_tar
    archive = make(root / "archive", {member or "x": b"body"})
    try:
        files.unpack(archive, [member], root / "deep" / "out")
    except UserError:
        assert everything_below(root) == ["archive"]
    else:
        assert len(everything_below(root / "deep" / "out")) == 1
        assert len(everything_below(root)) == 2
