"""Notices that the Ray of this machine has died, for which Ray itself would wait forever.

As soon as it misses its raylet, which ends with any of its agents, Ray ends the process of the
driver without a word. So a thread is woken by the end of these processes, and what follows happens
in that thread.
"""

import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import ray
from ray.exceptions import RayError

from orchestrator.execution import ray_internals
from tardis_core.stopping import stop_signals

OnDeath = Callable[[str], None]  # called with the reason, in words
LOOK_SECONDS = 0.1
ASK_SECONDS = 2.0  # between questions to Ray itself, which cost more than a look
ANSWER_SECONDS = 30.0  # Ray ends the process after 60 without an answer
STOP_ANSWER_SECONDS = 3.0  # if the sweep is to stop; Ray may have got the same signal


@contextmanager
def watching(on_death: OnDeath) -> Iterator[None]:
    """A context that calls a function, in a thread, if the Ray of this process dies in it."""
    watch = _Watch(on_death)
    if ray_internals.own_services():
        threading.Thread(target=watch.ask, daemon=True).start()
    with watch.looking():
        yield


@contextmanager
def watching_start(on_death: OnDeath) -> Iterator[None]:
    """The same while Ray starts, and cannot be asked yet."""
    with _Watch(on_death).looking():
        yield


class _Watch:
    """One thread looks at the processes of Ray, another asks Ray, which may not answer."""

    def __init__(self, on_death: OnDeath) -> None:
        self._on_death, self._over = on_death, threading.Event()
        self._services: dict[int, str] = {}
        self._node_lives, self._asked = True, 0.0

    @contextmanager
    def looking(self) -> Iterator[None]:
        """A context in which a thread looks."""
        threading.Thread(target=self._look, daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def _look(self) -> None:
        """Look until the context is over or Ray is dead."""
        with ExitStack() as opened:
            ends: list[int] = []
            while not self._over.is_set():
                for pid in self._new_services():
                    ends += _end_of(pid, opened)
                select.select(ends, [], [], LOOK_SECONDS)  # sleeps unless one of them ends
                reason = self._death()
                if reason and not self._over.is_set():
                    return self._on_death(reason)

    def _new_services(self) -> list[int]:
        """The processes that have been started since the last look."""
        if list(self._services.values()).count(ray_internals.AGENT) == ray_internals.AGENTS:
            return []  # looking for them costs more than looking at them
        services = ray_internals.own_services()
        new = [pid for pid in services if pid not in self._services]
        self._services |= services
        return new

    def _death(self) -> str:
        dead = {name for pid, name in self._services.items() if not ray_internals.lives(pid)}
        if dead:
            return f"its {' and '.join(sorted(dead))} ended"
        if not self._node_lives:
            return "its node was declared dead, as after a suspension"
        patience = STOP_ANSWER_SECONDS if stop_signals.number else ANSWER_SECONDS
        silent = self._asked and time.monotonic() - self._asked > ASK_SECONDS + patience
        return "it does not answer" if silent else ""

    def ask(self) -> None:
        """Ask Ray whether this machine belongs to it, again and again."""
        while not self._over.is_set():
            self._asked = time.monotonic()
            with suppress(RayError, RuntimeError):  # it is being shut down
                self._node_lives = any(node["Alive"] for node in ray.nodes())
            self._over.wait(ASK_SECONDS)


def _end_of(pid: int, opened: ExitStack) -> list[int]:
    """A descriptor that becomes readable when a process ends, where the system knows such."""
    if not hasattr(os, "pidfd_open"):  # not on macOS
        return []
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return []
    opened.callback(os.close, descriptor)
    return [descriptor]
