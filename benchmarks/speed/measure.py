"""Time and memory of functions, measured so that they can be compared."""

import multiprocessing
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from benchmarks.speed.cases import Case, Size, training_step
from orchestrator.common import provenance
from tardis_core.kernels import library

_STATUS = Path("/proc/self/status")


def medians(
    runs: Mapping[str, Callable[[], None]], seconds: float, slow: tuple[str, ...] = ()
) -> dict[str, float]:
    """The median time of each function; they take turns, so a disturbance meets all alike.

    With one thread it is the time of the processor, which other programs do not count into.

    Args:
        seconds: about how long to go on; at least three rounds are made, after one to warm up.
        slow: the names of those that are left out after three rounds.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    started, rounds = time.perf_counter(), 0
    while rounds < 4 or (time.perf_counter() - started < seconds and rounds < 30):
        for name, run in runs.items():
            if name in slow and rounds >= 4:
                continue
            before = clock()
            run()
            if rounds:
                times[name].append(clock() - before)
        rounds += 1
    return {name: statistics.median(each) for name, each in times.items()}


def peak_megabytes(case: Case, size: Size) -> float:
    """How much memory a training step takes at its peak, weights aside; in a fresh process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(peak_here, case, size).result()


def peak_here(case: Case, size: Size) -> float:
    """The same in this process, whose earlier work may have left memory to be used again."""
    torch.set_num_threads(1)
    training_step(case, size._replace(T=3, B=2))()  # libraries and threads are started
    step = training_step(case, size)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _kilobytes("VmRSS")
    step()
    return (_kilobytes("VmHWM") - before) / 1024


def _kilobytes(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", _STATUS.read_text())
    assert found is not None
    return int(found[1])


def machine() -> str:
    """What the figures were measured on, in one sentence."""
    native = library.load()
    level = "none" if native is None else library.LEVELS[native.tardis_best_level()]
    return (
        f"{os.cpu_count()} cores of {provenance.processor()}, "
        f"instruction set {level}, no GPU used, Linux {platform.release()}, "
        f"Python {platform.python_version()}, PyTorch {torch.__version__}"
    )
