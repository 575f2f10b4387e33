"""Arrays that took a while to make, kept in the cache: what is missing or broken is made again."""

import io
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tardis_core.data.disk import write_atomically

T = TypeVar("T")
_log = logging.getLogger("tardis_core")


def read(path: Path, take: Callable[[Mapping[str, np.ndarray]], T]) -> T | None:
    """What `take` makes of the arrays, or None where the file is missing or broken.

    Args:
        take: called with the arrays by name; raises if they are not the ones it expects.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            return take(stored)
    except FileNotFoundError:
        return None
    except Exception as error:  # a flipped bit can raise almost anything in zipfile and NumPy
        _log.info("%s is broken (%s) and is made again", path, error)
        return None


def keep(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write the arrays; a cache that cannot be written costs time, nothing else."""
    content = io.BytesIO()
    np.savez(content, **arrays)
    try:
        write_atomically(path, content.getvalue())
    except OSError as error:
        _log.warning(
            "What was made of the data cannot be kept in %s: %s.", path.parent, error.strerror
        )
