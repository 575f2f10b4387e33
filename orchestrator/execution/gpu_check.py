"""The GPU kernels tried on every node of a cluster: do they agree with torch, how fast are they?"""

import time
from collections.abc import Callable
from typing import NamedTuple

import ray
import torch
from ray.exceptions import GetTimeoutError, RayError
from torch import Tensor

from orchestrator.execution.gpu_probe import ask_gpu_nodes
from tardis_core.text import error_line

PATIENCE = 300  # seconds for the answers; kernels are compiled the first time
ROUNDS = 10


class Report(NamedTuple):
    """What a node says of its GPU."""

    gpu: str
    obstacle: str | None  # why the kernels cannot be used, if they cannot
    triton_ms: float
    torch_ms: float


def check_here() -> Report:
    """Check the kernels on the GPU of this process, and time a small sequence by both backends."""
    # Only on the node: the driver may be a machine without Triton.
    from tardis_core.kernels import gpu_check, torch_sequence, triton_sequence

    device = torch.device("cuda")
    name, obstacle = torch.cuda.get_device_name(device), gpu_check.obstacle()
    trained, fixed = gpu_check.problem(device)
    by_torch = _seconds(lambda: torch_sequence.run(trained, fixed).h_TBH)
    by_triton = float("nan")
    if obstacle is None:
        by_triton = _seconds(lambda: triton_sequence.run(trained, fixed).h_TBH)
    return Report(name, obstacle, 1e3 * by_triton, 1e3 * by_torch)


def _seconds(forward: Callable[[], Tensor]) -> float:
    """The mean time of forward and backward, after one round to warm up."""
    started = 0.0
    for round_ in range(ROUNDS + 1):
        forward().sum().backward()
        torch.cuda.synchronize()
        if round_ == 0:
            started = time.perf_counter()
    return (time.perf_counter() - started) / ROUNDS


def check_nodes() -> list[tuple[str, str]]:
    """The address of every node with GPUs, and its answer in words."""
    tasks = ask_gpu_nodes(check_here, lambda gpus: 1)
    if tasks:
        ray.wait(list(tasks), num_returns=len(tasks), timeout=PATIENCE)
    return [(address, _answer(task)) for task, address in tasks.items()]


def _answer(task: ray.ObjectRef) -> str:
    try:
        report: Report = ray.get(task, timeout=0)
    except GetTimeoutError:
        ray.cancel(task, force=True)
        return f"no answer within {PATIENCE} s: its GPUs are busy"
    except RayError as error:
        return f"cannot train: {error_line(error, last=True)}"
    if report.obstacle is not None:
        return f"{report.gpu}: torch backend, {report.torch_ms:.2f} ms; triton: {report.obstacle}"
    return f"{report.gpu}: triton {report.triton_ms:.2f} ms, torch {report.torch_ms:.2f} ms"
