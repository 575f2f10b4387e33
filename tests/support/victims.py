"""The processes of a sweep on this machine, found by what /proc says of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# What the command line of a part contains; agents of Ray rename themselves once they have started.
WORDS = {
    "worker": (b"ray::ImplicitFunc",),
    "delivery": (b"orchestrator.tracking.delivery_worker",),
    "raylet": (b"raylet/raylet",),
    "gcs": (b"gcs_server",),
    "agent": (b"agent", b"ray::DashboardAgent", b"ray::RuntimeEnvAgent"),
}


class Process(NamedTuple):
    """A process as /proc shows it."""

    pid: int
    parent: int
    words: bytes


def processes() -> dict[int, Process]:
    """All processes of this machine."""
    every = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat, words = (entry / "stat").read_text(), (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        parent = int(stat.rpartition(")")[2].split()[1])
        every[int(entry.name)] = Process(int(entry.name), parent, words)
    return every


def descendants(pid: int) -> Iterator[Process]:
    """The children of a process, their children, and so on."""
    every, parents = processes(), {pid}
    while parents:
        children = [each for each in every.values() if each.parent in parents]
        yield from children
        parents = {each.pid for each in children}


def victims(driver: int, part: str) -> list[int]:
    """The processes of a part that a driver has started; the driver itself for `driver`."""
    if part in ("driver", "group"):
        return [driver]
    return [each.pid for each in descendants(driver) if _is_a(part, each)]


def _is_a(part: str, process: Process) -> bool:
    program = process.words.split(b"--")[0]  # without its options, which name other parts
    return any(word in program for word in WORDS[part])
