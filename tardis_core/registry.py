"""Tasks, models and estimators by name.

A registry belongs to a folder: all modules in it and below are imported when a name is first asked
for, so a new file with a decorated class needs no list to be edited.

    TASKS = Registry[type[Task]]("task", "tardis_core.tasks")

    @TASKS.register("copy")
    class Copy(Task): ...

    TASKS.get("copy")
"""

import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from tardis_core import plugins
from tardis_core.errors import UserError, choices

T = TypeVar("T")
_REGISTERED = re.compile(r"""^@?[A-Z]+\.register\(["']([^"']+)["']\)""", re.MULTILINE)


class Registry(Generic[T]):
    """Names to classes, filled by the modules of one package."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._entries: dict[str, T] = {}
        self._imported = False

    def register(self, name: str) -> Callable[[T], T]:
        """Class decorator: enter the class under `name`."""

        def enter(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = entry
            return entry

        return enter

    def get(self, name: str) -> T:
        """The class registered as `name`."""
        self._import_all()
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries)
        return self._entries[name]

    def names(self) -> list[str]:
        """All names, sorted."""
        self._import_all()
        return sorted(self._entries)

    def _import_all(self) -> None:
        if not self._imported:
            package = importlib.import_module(self._package)
            for module in pkgutil.walk_packages(package.__path__, f"{self._package}."):
                importlib.import_module(module.name)
            self._imported = True
        plugins.execute_requested()


class Names(NamedTuple):
    """The names of a registry without its classes, whose modules take seconds to import.

    They are read from the source of the package; once its registry `module.attribute` has been
    imported that answers, since others may have registered classes of their own.
    """

    kind: str
    package: str
    module: str
    attribute: str

    def all(self) -> list[str]:
        """All names, sorted."""
        if self.module and plugins.requested():
            importlib.import_module(self.module)
        loaded = sys.modules.get(self.module)
        if loaded is not None and hasattr(loaded, self.attribute):
            names: list[str] = getattr(loaded, self.attribute).names()
            return names
        return sorted(_names_in(self.package))

    def check(self, name: str) -> None:
        """Raise `UserError` for a name that is not registered."""
        if name not in self.all():
            raise unknown(self.kind, name, self.all())


def _names_in(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    folders = [] if spec is None else spec.submodule_search_locations or []
    paths = (path for folder in folders for path in Path(folder).rglob("*.py"))
    return [name for path in paths for name in _REGISTERED.findall(path.read_text("utf-8"))]


def unknown(kind: str, name: str, names: Iterable[str]) -> UserError:
    """The error about a name that is not registered."""
    return UserError(f"unknown {kind} {name!r}; choose one of: {choices(names)}")


TASK_NAMES = Names("task", "tardis_core.tasks", "tardis_core.tasks.base", "TASKS")
MODEL_NAMES = Names("model", "tardis_core.models", "tardis_core.models.base", "MODELS")
ESTIMATOR_NAMES = Names(
    "estimator", "tardis_core.estimators", "tardis_core.estimators.base", "ESTIMATORS"
)
