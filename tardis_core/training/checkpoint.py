"""Checkpoints: written whole or not at all, read without running anything they contain."""

import os
import warnings
from pathlib import Path
from typing import Any

import torch

from tardis_core.data.disk import replacing
from tardis_core.errors import UserError
from tardis_core.text import error_line

FORMAT = 2


def save(path: Path, values: dict[str, Any]) -> None:
    """Write tensors and plain values to `path`, replacing what is there in one step."""
    with replacing(path) as file:
        torch.save({"format": FORMAT, **values}, file)
        file.flush()
        os.fsync(file.fileno())


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote; tensors arrive on the CPU."""
    if not os.path.isfile(path):  # of a path, also one that no file can have
        raise UserError(f"there is no checkpoint {path}; give the folder of a run or a .pt file")
    try:
        with warnings.catch_warnings(action="ignore"):  # whatever is odd about it ends in an error
            values = torch.load(path, map_location="cpu", weights_only=True)
        version = values.get("format") if isinstance(values, dict) else None
        if version != FORMAT:
            raise ValueError(f"its format is {version}, this version reads {FORMAT}")
    except Exception as error:  # the readers of torch, zip and pickle raise many kinds
        reason = error_line(error, limit=120)
        raise UserError(
            f"{path} is not a checkpoint of this program or is damaged ({reason}); "
            "use another checkpoint or start the run again"
        ) from error
    return values
