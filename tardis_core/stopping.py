"""Signals that ask this process to stop, heard at moments that can take it.

Ctrl-C sends SIGINT, schedulers such as Slurm and Kubernetes send SIGTERM, often twice, or SIGUSR1
some time before it, and a terminal that is closed sends SIGHUP. The first one decides the exit
code, 128 and its number.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
Reaction = Callable[[], None]


class Interrupted(KeyboardInterrupt):
    """Somebody has asked this process to stop."""


class StopSignals:
    """The stop signals of this process: what the next one does, and the first that came."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._arrivals: int | None = None  # the pipe into which the system writes their numbers
        self._react: Reaction = _ignore
        self._listening = False

    @property
    def number(self) -> int | None:
        """Of the first signal; known to all threads before the main one is free to react."""
        if self._number is None and self._arrivals is not None:
            arrived = (number for number in _read(self._arrivals) if number in NUMBERS)
            self._number = next(arrived, self._number)
        return self._number

    @property
    def exit_code(self) -> int:
        """The exit code of a process that was asked to stop."""
        return 128 + (self.number or signal.SIGINT)

    @contextmanager
    def listening(self, last: bool = False) -> Iterator[None]:
        """A context in which signals are heard; Python allows it in the main thread alone.

        Args:
            last: after a signal the process ends with the context, and ignores further ones.
        """
        if self._listening or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in NUMBERS}
        self.forget()
        self._listening = True
        self.listen()
        try:
            with self._noting_arrivals(), self.interrupting():
                yield
        finally:
            self._listening = False
            ending = last and self._number is not None
            for number, handler in before.items():
                # A handler in Python would be removed while Python ends, and the signal would kill.
                signal.signal(number, signal.SIG_IGN if ending else handler)

    def forget(self) -> None:
        """As if no signal had come."""
        self._number = None

    @contextmanager
    def _noting_arrivals(self) -> Iterator[None]:
        self._arrivals, end = os.pipe()
        os.set_blocking(self._arrivals, False)
        os.set_blocking(end, False)
        before = signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            arrivals, self._arrivals = self._arrivals, None
            os.close(arrivals)
            os.close(end)

    def listen(self) -> None:
        """Hear the signals, also if a library has installed handlers of its own since."""
        if self._listening:
            for number in NUMBERS:
                signal.signal(number, self._receive)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._number = self._number or number
        self._react()

    @contextmanager
    def reacting(self, react: Reaction) -> Iterator[None]:
        """A context in which a signal calls the function."""
        self._react, before = react, self._react
        try:
            yield
        finally:
            self._react = before

    def interrupting(self) -> AbstractContextManager[None]:
        """A context that the first signal ends with `Interrupted`."""
        return self.reacting(self._interrupt)

    def deferring(self) -> AbstractContextManager[None]:
        """A context that no signal ends; `number` remembers it."""
        return self.reacting(_ignore)

    def _interrupt(self) -> None:
        self._react = _ignore  # whatever has to be saved now must not be interrupted again
        raise Interrupted


def _ignore() -> None:
    pass


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1024)
    except BlockingIOError:  # nothing has arrived
        return b""


stop_signals = StopSignals()
