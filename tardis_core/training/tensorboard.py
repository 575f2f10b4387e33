"""A training as TensorBoard event files, in the folder of the run."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorboardX import SummaryWriter
from tensorboardX.proto.event_pb2 import Event

from tardis_core.training.loop import Row, Trainer

FOLDER = "tensorboard"


class TensorBoard:
    """Writes every validation once; a resumed run begins another file in the same folder."""

    _written: int  # update of the last row in the files

    def __init__(self) -> None:
        self._writer: SummaryWriter | None = None

    def started(self, trainer: Trainer, folder: Path) -> None:
        """Open the file."""
        # Not the update of the run: parts of it may have been trained without event files, and
        # what a process that was killed had not yet written is not in them either.
        self._written = _last_update(folder / FOLDER)
        self._writer = SummaryWriter(str(folder / FOLDER))

    def validated(self, rows: Sequence[Row]) -> None:
        """Write the rows that are new."""
        assert self._writer is not None
        for row in rows:
            update = int(row["update"])
            if update <= self._written:
                continue
            self._written = update
            for name, value in row.items():
                if name != "update":
                    self._writer.add_scalar(name, value, update)
        self._writer.flush()

    def ended(self, result: Mapping[str, Any] | None) -> None:
        """Close the file."""
        assert self._writer is not None
        self._writer.close()


def _last_update(folder: Path) -> int:
    """The last update that is in the event files of a folder; 0 if there is none."""
    files = folder.glob("events.out.tfevents.*")
    return max((event.step for path in files for event in _events(path)), default=0)


def _events(path: Path) -> Iterator[Event]:
    """The events of a file; one that was cut off while it was written is left out.

    Each is preceded by its length (8 bytes) and a checksum of it (4), and followed by a checksum
    of its own (4).
    """
    content, start = path.read_bytes(), 12
    while start <= len(content):
        (length,) = struct.unpack_from("<Q", content, start - 12)
        end = start + length
        if end + 4 > len(content):
            return
        yield Event.FromString(content[start:end])
        start = end + 4 + 12
