"""The one way every data set finds its files.

In order: the data directory given, the cache, a download whose checksum is verified. Where nothing
is found the loader makes its stand-in. A broken file is an error, never silently replaced.

    TARDIS_DATA     the data directory, where no argument gives one
    TARDIS_CACHE    the cache, otherwise $XDG_CACHE_HOME/tardis or ~/.cache/tardis
    TARDIS_OFFLINE  1: never download
"""

import json
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from tardis_core.data.disk import sha256_of, unpack, write_atomically
from tardis_core.data.download import RemoteFile, download_all
from tardis_core.errors import UserError, choices

__all__ = [
    "SOURCES",
    "RemoteFile",
    "cache_dir",
    "check_source",
    "data_dir",
    "fall_back",
    "find",
    "first_place",
    "require",
    "sha256_of",
    "unpack",
    "write_atomically",
]

SOURCES = ("auto", "real", "standin")

_SIDECAR = ".verified.json"
_log = logging.getLogger("tardis_core")
_announced: set[str] = set()


def check_source(source: str) -> None:
    """Refuse a source that is not one of `SOURCES`."""
    if source not in SOURCES:
        raise UserError(f"the data source is {source!r}; choose one of: {choices(SOURCES)}")


def cache_dir() -> Path:
    """The directory for downloads and for what is derived from them (it need not exist yet)."""
    if given := os.environ.get("TARDIS_CACHE"):
        return Path(given)
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG rules say to ignore a relative path; an unset variable is the relative path ".".
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "tardis"


def data_dir(explicit: Path | str | None) -> Path | None:
    """The user's data directory: the argument, otherwise TARDIS_DATA, otherwise none."""
    given = explicit or os.environ.get("TARDIS_DATA")
    if not given:
        return None
    path = Path(given)
    if not path.is_dir() or not os.access(path, os.R_OK | os.X_OK):
        raise UserError(
            f"the data directory must be a readable directory, and {str(path)!r} is not one; "
            "correct --data-dir or TARDIS_DATA, or leave both out"
        )
    return path


def first_place(folder: str, names: Sequence[str], directory: Path | str | None) -> Path | None:
    """The first place in the user's data directory that holds at least one of the files."""
    for place in _places(folder, directory):
        if any(_is_file(place / name) for name in names):
            return place
    return None


def find(
    folder: str,
    files: Sequence[RemoteFile],
    *,
    directory: Path | str | None = None,
    download: bool = True,
) -> dict[str, Path] | None:
    """The verified path of every file by name, or None where they are nowhere to be had.

    All files come from one place: DIR/folder, DIR, or the cache (completed by downloads).
    """
    place = first_place(folder, [file.name for file in files], directory)
    if place is not None:
        paths = {file.name: require(place / file.name) for file in files}
        for file in files:
            _verify(paths[file.name], file)
        return paths
    return _find_cached(cache_dir() / folder, files, download=download and not _offline())


def require(path: Path) -> Path:
    """`path`, which must exist because its companions do."""
    if not _is_file(path):
        raise UserError(
            f"{path.parent} holds only a part of the data set: {path.name} is missing; "
            "add it, name another directory with --data-dir, or use --data standin"
        )
    return path


def fall_back(
    name: str, wanted: Iterable[str], *, directory: Path | str | None, source: str
) -> None:
    """Say that the real data was not found: an error for source "real", else a warning, once."""
    looked = ", ".join(str(p) for p in (*_places(name, directory), cache_dir() / name))
    how = "give their directory with --data-dir or TARDIS_DATA"
    if source == "real":
        tried = "downloads are off (TARDIS_OFFLINE)" if _offline() else "the download failed"
        raise UserError(
            f"no real {name} data: looked for {', '.join(wanted)} in {looked}, and {tried}; "
            f"{how}, or use --data standin"
        )
    if name not in _announced:
        _announced.add(name)
        _log.warning(
            "The real %s data was not found, so a made-up stand-in is used, whose results say "
            "nothing of the real data: to use the real files, %s.",
            name,
            how,
        )


def _places(folder: str, directory: Path | str | None) -> tuple[Path, ...]:
    root = data_dir(directory)
    return () if root is None else (root / folder, root)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except PermissionError as error:
        raise UserError(f"{path.parent} cannot be read; fix its permissions") from error


def _offline() -> bool:
    return os.environ.get("TARDIS_OFFLINE", "") not in ("", "0")


def _verify(path: Path, file: RemoteFile) -> None:
    """Refuse a file that is not the published one."""
    size = path.stat().st_size
    # The size alone shows a truncated file, and says more to people than a checksum.
    wrong_size = file.size is not None and size != file.size
    digest = "" if wrong_size else sha256_of(path)
    if digest == file.sha256:
        return
    expected, got = f"SHA-256 {file.sha256[:12]}...", f"SHA-256 {digest[:12]}..."
    if wrong_size:
        expected, got = f"{file.size:,} bytes", f"{size:,} bytes"
    raise UserError(
        f"{path} is truncated or altered: expected {expected}, found {got}; "
        "delete it and download it again, or use --data standin"
    )


def _find_cached(
    folder: Path, files: Sequence[RemoteFile], *, download: bool
) -> dict[str, Path] | None:
    missing = [file for file in files if not _is_file(folder / file.name)]
    _verify_once(folder, [file for file in files if file not in missing])
    if missing and not (download and download_all(folder, missing)):
        return None
    return {file.name: folder / file.name for file in files}


def _verify_once(folder: Path, files: Sequence[RemoteFile]) -> None:
    """Verify files of the cache, except those unchanged since they were last verified."""
    verified = _read_sidecar(folder / _SIDECAR)
    stamps = {}
    for file in files:
        stat = (folder / file.name).stat()
        stamps[file.name] = [file.sha256, stat.st_size, stat.st_mtime_ns]
        if verified.get(file.name) != stamps[file.name]:
            _verify(folder / file.name, file)
    if any(verified.get(name) != stamp for name, stamp in stamps.items()):
        try:
            write_atomically(folder / _SIDECAR, json.dumps(verified | stamps).encode())
        except OSError:
            _log.debug("the cache %s is read-only: its files are verified at each use", folder)


def _read_sidecar(path: Path) -> dict[str, object]:
    try:
        verified = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return verified if isinstance(verified, dict) else {}
