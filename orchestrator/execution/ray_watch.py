"""Notices that the Ray of this machine has died, for which Ray itself would wait for ever."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import ray
from ray.exceptions import RayError

from orchestrator.execution import ray_internals

# A few seconds after the raylet, Ray ends the process of the driver without a word.
LOOK_SECONDS = 0.1
ASK_SECONDS = 5.0  # between questions to Ray itself, which cost more
SIGNAL = signal.SIGUSR2


class RayDied(BaseException):
    """The local Ray has died; not an `Exception`, for which Tune would wait for its workers."""


@contextmanager
def watching() -> Iterator[None]:
    """A context that ends with `RayDied` if the Ray that this process has started dies."""
    if (
        not ray_internals.own_services()
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    over, before = threading.Event(), signal.signal(SIGNAL, _raise)
    threading.Thread(target=_watch, args=(over,), name="ray watch", daemon=True).start()
    try:
        yield
    except Exception as error:  # Tune may fail before the thread has looked
        if reason := _death():
            raise RayDied(reason) from error
        raise
    finally:
        over.set()
        signal.signal(SIGNAL, before)


def _watch(over: threading.Event) -> None:
    looks = 0
    while not over.wait(LOOK_SECONDS):
        looks += 1
        asks = looks % round(ASK_SECONDS / LOOK_SECONDS) == 0
        if _dead_service() or (asks and _death()):
            if not over.is_set():
                os.kill(os.getpid(), SIGNAL)  # a signal also wakes a thread that waits for Ray
            return


def _raise(number: int, frame: FrameType | None) -> None:
    signal.signal(SIGNAL, signal.SIG_IGN)
    raise RayDied(_death())


def _death() -> str:
    """What has died, in words; empty if Ray lives."""
    return _dead_service() or _dead_node()


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


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()  # where signals are handled
