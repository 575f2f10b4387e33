"""Comparable measurements of the time and memory of functions."""

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
    """Median time of each function; they alternate, so that disturbances affect all equally.

    With one thread it is CPU time, which excludes other programs.

    Args:
        seconds: approximate duration; there are at least three rounds after one to warm up.
        slow: names of functions that run in three rounds only.
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
    """Peak memory of a training step without the weights, measured in a new process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(peak_here, case, size).result()


def peak_here(case: Case, size: Size) -> float:
    """The same in this process, which may reuse memory of earlier work."""
    torch.set_num_threads(1)
    training_step(case, size._replace(T=3, B=2))()  # loads libraries and starts threads
    step = training_step(case, size)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _kilobytes("VmRSS")
    step()
    return (_kilobytes("VmHWM") - before) / 1024


def _kilobytes(name: str) -> int:
    match = re.search(rf"{name}:\s+(\d+) kB", _STATUS.read_text())
    assert match is not None
    return int(match[1])


def machine() -> str:
    """One sentence about the machine and the versions."""
    native = library.load()
    level = "none" if native is None else library.LEVELS[native.tardis_best_level()]
    return (
        f"{os.cpu_count()} cores of {provenance.processor()}, "
        f"instruction set {level}, no GPU used, Linux {platform.release()}, "
        f"Python {platform.python_version()}, PyTorch {torch.__version__}"
    )
