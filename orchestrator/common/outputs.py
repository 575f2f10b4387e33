"""The folders that commands write their results to: one that cannot be written is one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tardis_core.errors import UserError


@contextmanager
def writing_to(folder: Path) -> Iterator[Path]:
    """The folder, while it is written to; raises `UserError` if that is not possible."""
    try:
        yield folder
    except OSError as error:
        raise UserError(
            f"--out must be a folder that can be written, not {folder} ({error})"
        ) from error
