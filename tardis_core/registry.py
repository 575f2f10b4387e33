"""Tasks, models and estimators by name.

A registry belongs to a folder: all modules in it and below are imported when a name is first asked
for, so a new file with a decorated class needs no list to be edited.

    TASKS = Registry[type[Task]]("task", "tardis_core.tasks")

    @TASKS.register("copy")
    class Copy(Task): ...

    TASKS.get("copy")
"""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Generic, TypeVar

from tardis_core.errors import UserError, choices

T = TypeVar("T")


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
            raise UserError(
                f"unknown {self.kind} {name!r}; choose one of: {choices(self._entries)}"
            )
        return self._entries[name]

    def names(self) -> list[str]:
        """All names, sorted."""
        self._import_all()
        return sorted(self._entries)

    def _import_all(self) -> None:
        if self._imported:
            return
        package = importlib.import_module(self._package)
        for module in pkgutil.walk_packages(package.__path__, f"{self._package}."):
            importlib.import_module(module.name)
        self._imported = True
