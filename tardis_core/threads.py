"""The threads of a training on a machine that others use too.

Threads that spin while they wait take the cores from each other as soon as there are more of them
than cores, and a training then takes many times as long. Two rules prevent it: threads wait
passively, and there are no more of them than cores that this process may use and others leave.
OMP_WAIT_POLICY and OMP_NUM_THREADS, where the user sets them, decide instead.
"""

import os
from pathlib import Path

WAIT_POLICY, NUMBER = "OMP_WAIT_POLICY", "OMP_NUM_THREADS"


def wait_passively() -> None:
    """Let the threads of this process and its children sleep while they wait.

    OpenMP reads it once, when torch is imported: call this before.
    """
    os.environ.setdefault(WAIT_POLICY, "passive")


def thread_count() -> int:
    """The number of threads for a training; at least one."""
    given = os.environ.get(NUMBER, "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    free_share = max(0.0, 1 - _busy() / (os.cpu_count() or 1))
    return max(1, round(_cores() * free_share))


def _cores() -> int:
    """The cores that this process may use: an affinity mask can leave out most of a machine's."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def _busy() -> float:
    """The cores that other processes keep busy, now and on average of the last minute.

    The smaller counts: the average remembers a process that has ended, and one look may meet one
    that only just begins.
    """
    try:
        average = os.getloadavg()[0]
        running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
        return min(average, running - 1)  # without this process
    except (OSError, ValueError, IndexError):
        return 0.0
