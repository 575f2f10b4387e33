"""Checkpoints: written whole or not at all, read without running anything they contain."""

import os
import tempfile
from pathlib import Path
from typing import Any

import torch

from tardis_core.errors import UserError

FORMAT = 1


def save(path: Path, values: dict[str, Any]) -> None:
    """Write tensors and plain values to `path`, replacing what is there in one step."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save({"format": FORMAT, **values}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote; tensors arrive on the CPU."""
    if not path.is_file():
        raise UserError(f"there is no checkpoint {path}; give the folder of a run or a .pt file")
    try:
        values = torch.load(path, map_location="cpu", weights_only=True)
        if values["format"] != FORMAT:
            raise ValueError(f"its format is {values['format']}, this version reads {FORMAT}")
    except Exception as error:  # the readers of torch, zip and pickle raise many kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{path} is not a checkpoint of this program or is damaged ({reason[:120]}); "
            "use another checkpoint or start the run again"
        ) from error
    return values
