"""Notices that the Ray of this machine has died, for which Ray itself would wait for ever.

A few seconds after its raylet, Ray ends the process of the driver without a word. So a thread looks
often, and what follows happens in that thread.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

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
        for loop in (watch.look, watch.ask):
            threading.Thread(target=loop, daemon=True).start()
    try:
        yield
    finally:
        watch.over.set()


class _Watch:
    """One thread looks at the processes of Ray, another asks Ray, which may not answer."""

    def __init__(self, on_death: OnDeath) -> None:
        self._on_death, self.over = on_death, threading.Event()
        self._node_lives, self._asked = True, time.monotonic()

    def look(self) -> None:
        """Look until the context is over or Ray is dead."""
        while not self.over.wait(LOOK_SECONDS):
            reason = self._death()
            if reason and not self.over.is_set():
                return self._on_death(reason)

    def _death(self) -> str:
        dead = [name for name, lives in ray_internals.own_services().items() if not lives]
        if dead:
            return f"its {' and '.join(dead)} ended"
        if not self._node_lives:
            return "its node was declared dead, as after a suspension"
        patience = STOP_ANSWER_SECONDS if stop_signals.number else ANSWER_SECONDS
        silent = time.monotonic() - self._asked > ASK_SECONDS + patience
        return "it does not answer" if silent else ""

    def ask(self) -> None:
        """Ask Ray whether this machine belongs to it, again and again."""
        while not self.over.is_set():
            self._asked = time.monotonic()
            with suppress(RayError, RuntimeError):  # it is being shut down
                self._node_lives = any(node["Alive"] for node in ray.nodes())
            self.over.wait(ASK_SECONDS)
