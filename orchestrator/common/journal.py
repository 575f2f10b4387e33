"""Files of lines that are only ever appended to, and stay readable whatever cuts a write short."""

import os
from io import FileIO


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
