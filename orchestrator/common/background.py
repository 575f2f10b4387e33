"""A function that runs while this thread does something else."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Background(Generic[Result]):
    """One call in a thread that does not keep the process alive, unlike those of an executor."""

    def __init__(self, function: Callable[..., Result], *arguments: Any) -> None:
        self._function, self._arguments = function, arguments
        self._results: list[Result] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._call, daemon=True)
        self._thread.start()

    def _call(self) -> None:
        try:
            self._results.append(self._function(*self._arguments))
        except BaseException as error:
            self._error = error

    def result(self) -> Result:
        """Wait for the call; returns or raises what it did."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results[0]
