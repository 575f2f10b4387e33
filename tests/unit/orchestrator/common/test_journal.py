"""Journals stay readable whatever cuts a write short."""

import resource

import pytest

from orchestrator.common.journal import append_whole, drop_torn_line


@pytest.mark.parametrize(
    ("content", "left"),
    [
        (b"", b""),
        (b"one\n", b"one\n"),
        (b"one\ntw", b"one\n"),
        (b"on", b""),
        (b"one\n\n", b"one\n\n"),
    ],
)
def test_only_a_torn_last_line_is_dropped(tmp_path, content, left):
    path = tmp_path / "journal"
    path.write_bytes(content)
    with open(path, "ab+", buffering=0) as file:
        drop_torn_line(file)
    assert path.read_bytes() == left


def test_a_write_that_does_not_fit_leaves_nothing_behind(tmp_path):
    path = tmp_path / "journal"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open(path, "ab+", buffering=0) as file:
        append_whole(file, b"one\n")
        resource.setrlimit(resource.RLIMIT_FSIZE, (6, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                append_whole(file, b"two\n")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == b"one\n"
        append_whole(file, b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"
