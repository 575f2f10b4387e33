"""Files of lines that are only ever appended to, and stay readable whatever cuts a write short."""

import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from tardis_core.data.disk import write_atomically

IsReadable = Callable[[bytes], bool]


def drop_torn_line(file: FileIO) -> None:
    """Cut off the half line that a kill or a full disk left at the end, if there is one."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return
    file.seek(size - 1)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def append_whole(file: FileIO, text: bytes) -> None:
    """Append all of the text, or raise OSError and leave the file as it was."""
    end, written = file.seek(0, os.SEEK_END), 0
    try:
        while written < len(text):
            written += file.write(text[written:]) or 0
    except OSError:
        file.truncate(end)
        raise


def damaged_lines(path: Path, is_readable: IsReadable) -> list[int]:
    """The numbers of whole lines that cannot be read, from 1; a kill leaves none of those."""
    return [
        number for number, line in enumerate(_whole_lines(path), start=1) if not is_readable(line)
    ]


def set_damage_aside(path: Path, is_readable: IsReadable, aside: Path) -> int:
    """Move the lines that cannot be read to another file; returns how many there were."""
    lines = _whole_lines(path)
    damaged = [line for line in lines if not is_readable(line)]
    if damaged:
        with open(aside, "ab") as file:
            file.writelines(damaged)
        write_atomically(path, b"".join(line for line in lines if is_readable(line)))
    return len(damaged)


def _whole_lines(path: Path) -> list[bytes]:
    text = path.read_bytes() if path.exists() else b""
    return [line + b"\n" for line in text.split(b"\n")[:-1]]  # bytes have other ends of lines
