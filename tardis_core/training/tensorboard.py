"""A training as TensorBoard event files, in the folder of the run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorboardX import SummaryWriter

from tardis_core.training.loop import Row, Trainer

FOLDER = "tensorboard"


class TensorBoard:
    """Writes every validation; a resumed run begins another file in the same folder."""

    _written: int  # update of the last row

    def __init__(self) -> None:
        self._writer: SummaryWriter | None = None

    def started(self, trainer: Trainer, folder: Path) -> None:
        """Open the file."""
        # Rows of before are in the files of before.
        self._written = trainer.update
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
