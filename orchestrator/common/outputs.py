"""Folders that commands write their results to."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tardis_core.errors import UserError


@contextmanager
def writing_to(folder: Path) -> Iterator[Path]:
    """A context that writes to the folder; raises `UserError` if that fails."""
    try:
        yield folder
    except OSError as error:
        raise UserError(
            f"--out must be a folder that can be written, not {folder} ({error})"
        ) from error
