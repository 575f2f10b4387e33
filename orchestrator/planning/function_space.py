"""A search space given as a Python function, kept as a file so that its sweep can be resumed."""

import inspect
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tardis_core.errors import UserError

ADAPTER = """

def space(trial, scale, estimators):
    return {name}(trial)
"""


def as_file(function: Callable[..., dict[str, Any]]) -> str:
    """The path of a file with the function as `space`.

    The file has the source of the function alone: what it needs it must import itself. It takes
    `trial`, or `trial, scale, estimators` as the functions of other spaces do.
    """
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise UserError(
            f"space must be a function with a source, or the name of a file, not {function!r}"
        ) from error
    name = function.__name__
    if name == "<lambda>" or not source.startswith("def "):
        raise UserError(f"space must be a plain function without decorators, not {name}")
    if len(inspect.signature(function).parameters) == 1:
        source += ADAPTER.format(name=name)
    elif name != "space":
        source += f"\n\nspace = {name}\n"
    path = Path(tempfile.mkdtemp(prefix="tardis-space-")) / "space.py"
    path.write_text(source)
    return str(path)
