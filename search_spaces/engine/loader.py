"""Spaces by the name of their task, or from a user's file."""

import importlib
import inspect
import pkgutil
import sys
import tokenize
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

import optuna

from search_spaces.engine.task_space import DEFAULT_MODELS

PACKAGE = "search_spaces"
INTERFACE = "space(trial, scale, estimators)"


class SpaceModule(Protocol):
    """What a space is: a module, or anything with the same two functions."""

    def space(
        self,
        trial: optuna.Trial,
        scale: str,
        estimators: Sequence[str],
        models: Sequence[str] = DEFAULT_MODELS,
    ) -> dict[str, Any]:
        """Settings of `tardis_core` by name, and "model" and "estimator"."""

    def first_guesses(
        self, scale: str, estimators: Sequence[str], models: Sequence[str] = DEFAULT_MODELS
    ) -> list[dict[str, Any]]:
        """Values of the searched parameters to be tried first."""


def names() -> list[str]:
    """The tasks that have a space, sorted."""
    package = importlib.import_module(PACKAGE)
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(
        name for name in found if hasattr(importlib.import_module(f"{PACKAGE}.{name}"), "space")
    )


def load(task: str) -> SpaceModule:
    """The space of a task."""
    if task not in names():
        raise ValueError(f"no search space for {task!r}; choose one of: {', '.join(names())}")
    return cast(SpaceModule, importlib.import_module(f"{PACKAGE}.{task}"))


def load_file(path: str | Path, task: str = "") -> "FileSpace":
    """The space of a user's file, for a task: a file may serve several."""
    try:
        with tokenize.open(path) as file:  # minds the file's own declaration of its encoding
            source = file.read()
    except OSError as error:
        raise ValueError(
            f"a search space must be a Python file that can be read, not {str(path)!r} "
            f"({error.strerror})"
        ) from error
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ValueError(
            f"a search space must be a Python file, not {str(path)!r} ({error})"
        ) from error
    return FileSpace(str(path), source, task)


class FileSpace:
    """A user's space; it is pickled as its source, because nobody else can import its module."""

    def __init__(self, path: str, source: str, task: str = "") -> None:
        self.path, self.source, self.task = path, source, task
        module = _execute(path, source)
        self._space = _function(module, path, "space", INTERFACE, 3)
        guess = "first_guesses(scale, estimators)"
        has_guesses = hasattr(module, "first_guesses")
        self._guesses = _function(module, path, "first_guesses", guess, 2) if has_guesses else None

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return FileSpace, (self.path, self.source, self.task)

    def space(
        self,
        trial: optuna.Trial,
        scale: str,
        estimators: Sequence[str],
        models: Sequence[str] = DEFAULT_MODELS,
    ) -> dict[str, Any]:
        """The settings of one trial."""
        found = self._call(self._space, models, trial, scale, estimators)
        if not isinstance(found, dict):
            raise ValueError(
                f"{self.path}: space must return a dictionary of settings, not {found!r}"
            )
        return found

    def first_guesses(
        self, scale: str, estimators: Sequence[str], models: Sequence[str] = DEFAULT_MODELS
    ) -> list[dict[str, Any]]:
        """The file's own first guesses, or none."""
        if self._guesses is None:
            return []
        return list(self._call(self._guesses, models, scale, estimators))

    def _call(self, function: Callable[..., Any], models: Sequence[str], *arguments: Any) -> Any:
        """`models` matters where others than TARDIS are searched, `task` to a file of several."""
        named: dict[str, Any] = {}
        for optional in ({"models": models}, {"task": self.task}):
            if _takes(function, *arguments, **named, **optional):
                named |= optional
        if "models" not in named and tuple(models) != DEFAULT_MODELS:
            raise ValueError(
                f"{self.path}: to search the models {', '.join(models)}, {function.__name__} must "
                "take an argument `models`"
            )
        try:
            return function(*arguments, **named)
        except ValueError:
            raise  # of a trial that answers for what is fixed: it has its own words
        except Exception as error:
            raise ValueError(
                f"{self.path}: {function.__name__} must run, and ended with "
                f"{type(error).__name__}: {error}"
            ) from error


def _execute(path: str, source: str) -> ModuleType:
    module = ModuleType(f"_search_space_{Path(path).stem}_{zlib.crc32(source.encode()):08x}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses and enumerations look themselves up here
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except Exception as error:
        del sys.modules[module.__name__]
        where = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise ValueError(
            f"a search space must be a Python file that runs; {path}: {where}"
            f"{type(error).__name__}: {reason}"
        ) from error
    return module


def _function(
    module: ModuleType, path: str, name: str, interface: str, arguments: int
) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if not callable(function):
        found = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise ValueError(
            f"a search space must define {interface}; {path} defines: {', '.join(found) or 'none'}"
            f" (for examples see the spaces of: {', '.join(names())})"
        )
    if not _takes(function, *[None] * arguments):
        raise ValueError(
            f"{path}: {name} must be called as {interface}, not {name}{inspect.signature(function)}"
        )
    return function


def _takes(function: Callable[..., Any], *arguments: Any, **named: Any) -> bool:
    try:
        inspect.signature(function).bind(*arguments, **named)
    except TypeError:
        return False
    return True
