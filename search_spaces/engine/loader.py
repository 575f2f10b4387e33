"""Load a space by the name of its task or from a user's file."""

import functools
import importlib
import inspect
import itertools
import pkgutil
import signal
import sys
import threading
import tokenize
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Protocol, cast

import optuna

from search_spaces.engine.task_space import DEFAULT_MODELS
from tardis_core.stopping import Interrupted

PACKAGE = "search_spaces"
SECONDS = 30.0  # that a call of a user's function may take
MOST_GUESSES = 1000
INTERFACE = "space(trial, scale, estimators)"


class SpaceModule(Protocol):
    """A space: a module, or anything else with these two functions."""

    def space(
        self,
        trial: optuna.Trial,
        scale: str,
        estimators: Sequence[str],
        models: Sequence[str] = DEFAULT_MODELS,
    ) -> dict[str, Any]:
        """The settings of one trial by name, including "model" and "estimator"."""

    def first_guesses(
        self, scale: str, estimators: Sequence[str], models: Sequence[str] = DEFAULT_MODELS
    ) -> list[dict[str, Any]]:
        """Values of the searched parameters that are tried first."""


def names() -> list[str]:
    """The tasks that have a space, sorted."""
    package = importlib.import_module(PACKAGE)
    modules = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(
        name.replace("_", "-")
        for name in modules
        if hasattr(importlib.import_module(f"{PACKAGE}.{name}"), "space")
    )


def load(task: str) -> SpaceModule:
    """The space of a task."""
    if task not in names():
        raise ValueError(f"no search space for {task!r}; choose one of: {', '.join(names())}")
    return cast(SpaceModule, importlib.import_module(f"{PACKAGE}.{task.replace('-', '_')}"))


def load_file(path: str | Path, task: str = "") -> "FileSpace":
    """The space in a user's file; a file for several tasks is given the task."""
    try:
        with tokenize.open(path) as file:  # respects an encoding declared in the file
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
    """A user's space; pickled as source, because other processes cannot import its module."""

    def __init__(self, path: str, source: str, task: str = "") -> None:
        self.path, self.source, self.task = path, source, task
        module = _execute(path, source)
        self._space = _function(module, path, "space", INTERFACE, 3)
        self._first_guesses = None
        if hasattr(module, "first_guesses"):
            interface = "first_guesses(scale, estimators)"
            self._first_guesses = _function(module, path, "first_guesses", interface, 2)

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
        settings = self._call(self._space, models, trial, scale, estimators)
        if not isinstance(settings, dict):
            raise ValueError(
                f"{self.path}: space must return a dictionary of settings, not {settings!r}"
            )
        return settings

    def first_guesses(
        self, scale: str, estimators: Sequence[str], models: Sequence[str] = DEFAULT_MODELS
    ) -> list[dict[str, Any]]:
        """The first guesses of the file, if it has any."""
        if self._first_guesses is None:
            return []
        guesses = self._call(_some_of(self._first_guesses), models, scale, estimators)
        if len(guesses) > MOST_GUESSES or not all(isinstance(each, dict) for each in guesses):
            raise ValueError(
                f"{self.path}: first_guesses must return at most {MOST_GUESSES} dictionaries of "
                f"values, not {str(guesses[:2])[:80]} ..."
            )
        return guesses

    def _call(self, function: Callable[..., Any], models: Sequence[str], *arguments: Any) -> Any:
        """Call a function of the file with those of `models` and `task` that it accepts."""
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
            with time_limit(SECONDS):
                return function(*arguments, **named)
        except (ValueError, Interrupted):
            raise  # from a fixed setting of the wrong type: the message is complete; or Ctrl-C
        except BaseException as error:  # also `sys.exit`
            raise ValueError(
                f"{self.path}: {function.__name__} must not fail, but raised "
                f"{type(error).__name__}: {error}"
            ) from error


def _execute(path: str, source: str) -> ModuleType:
    module = ModuleType(f"_search_space_{Path(path).stem}_{zlib.crc32(source.encode()):08x}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses and enums look up their module here
    try:
        with time_limit(SECONDS):
            exec(compile(source, path, "exec"), module.__dict__)
    except Interrupted:
        raise
    except BaseException as error:  # also `sys.exit`
        del sys.modules[module.__name__]
        where = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise ValueError(
            f"a search space must be a Python file that runs; {path}: {where}"
            f"{type(error).__name__}: {reason}"
        ) from error
    return module


def _some_of(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """The function with its results as a list, of a generator that never ends only the first."""

    @functools.wraps(function)
    def limited(*arguments: Any, **named: Any) -> list[Any]:
        return list(itertools.islice(function(*arguments, **named), MOST_GUESSES + 1))

    return limited


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """A context that ends with `TimeoutError` if it takes longer; of the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"it did not end within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _function(
    module: ModuleType, path: str, name: str, interface: str, arguments: int
) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if not callable(function):
        defined = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise ValueError(
            f"a search space must define {interface}; "
            f"{path} defines: {', '.join(defined) or 'none'} "
            f"(examples: the spaces of {', '.join(names())})"
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
