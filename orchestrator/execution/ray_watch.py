"""Notices that the Ray of this machine has died, for which Ray itself would wait for ever.

A few seconds after its raylet, Ray ends the process of the driver without a word. So a thread looks
often, and what follows happens in that thread.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import ray
from ray.exceptions import RayError

from orchestrator.execution import ray_internals

OnDeath = Callable[[str], None]  # called with the reason, in words
LOOK_SECONDS = 0.1
LOOKS_PER_QUESTION = 50  # a question to Ray itself costs more than a look


@contextmanager
def watching(on_death: OnDeath) -> Iterator[None]:
    """A context that calls a function, in a thread, if the Ray of this process dies in it."""
    over = threading.Event()
    if ray_internals.own_services():
        threading.Thread(target=_watch, args=(over, on_death), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(over: threading.Event, on_death: OnDeath) -> None:
    looks = 0
    while not over.wait(LOOK_SECONDS):
        looks += 1
        reason = _dead_service() or (_dead_node() if looks % LOOKS_PER_QUESTION == 0 else "")
        if reason and not over.is_set():
            return on_death(reason)


def _dead_service() -> str:
    dead = [name for name, lives in ray_internals.own_services().items() if not lives]
    return f"its {' and '.join(dead)} ended" if dead else ""


def _dead_node() -> str:
    """Whether Ray has given up this machine, such as after it was suspended."""
    try:
        alive = any(node["Alive"] for node in ray.nodes())
    except (RayError, RuntimeError):
        return ""  # it has just been shut down
    return "" if alive else "its node did not answer in time"
