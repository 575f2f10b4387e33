"""Files of a user that register models, tasks or estimators without touching the package.

`--plugin my_model.py` requests a file, and so does TARDIS_PLUGINS (several with `:` between them).
It is executed when a registry is first asked for names, after the modules of the package. A sweep
sends the source of its plugins to the workers.
"""

import os
import sys
import zlib
from pathlib import Path
from types import ModuleType

from tardis_core.errors import UserError

VARIABLE = "TARDIS_PLUGINS"

_requested: dict[str, str] = {}  # source by name, in the order of the requests
_executed: set[str] = set()  # names of modules


def request(path: str | Path) -> None:
    """Execute the file when names are next asked for."""
    try:
        source = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--plugin must be a Python file that can be read, not {path}") from error
    request_source(str(path), source)


def request_source(name: str, source: str) -> None:
    """`request` for a file that another machine has."""
    _requested[name] = source


def requested() -> dict[str, str]:
    """The source of all plugins of this process, by name."""
    for path in os.environ.get(VARIABLE, "").split(os.pathsep):
        if path and path not in _requested:
            request(path)
    return dict(_requested)


def execute_requested() -> None:
    """Execute what was requested and has not been executed."""
    for name, source in requested().items():
        module = f"_plugin_{Path(name).stem}_{zlib.crc32(source.encode()):08x}"
        if module not in _executed:
            _executed.add(module)  # now: a plugin may ask for names itself
            _execute(module, name, source)


def _execute(name: str, path: str, source: str) -> None:
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # dataclasses look up their module here
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except Exception as error:
        del sys.modules[name]
        _executed.discard(name)
        raise UserError(
            f"--plugin must be a Python file that runs; {path} raised "
            f"{type(error).__name__}: {error}"
        ) from error
