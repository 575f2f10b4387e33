"""A training step on a GPU compared with cuDNN's LSTM: `benchmarks.speed.step --device cuda`."""

import statistics
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch

from benchmarks.speed.cases import SIZES, TORCH_LSTM, Case, training_step
from tardis_core.errors import UserError
from tardis_core.kernels import gpu_check

CASES = [
    *(Case(kind, "triton", norm) for norm in (False, True) for kind in ("gumbel", "reinforce")),
    *(Case("lstm", "triton", norm) for norm in (False, True)),
    Case("gumbel", "torch"),
]
WARM_UP, ROUNDS = 3, 20


def gpu_table(names: Sequence[str]) -> str:
    """One row per size and precision: nn.LSTM in milliseconds, the others as multiples of it."""
    if not torch.cuda.is_available():
        raise UserError("--device cuda needs a GPU that PyTorch can use, and there is none here")
    obstacle = gpu_check.obstacle()
    lines = [
        f"Measured on {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, "
        f"check of the kernels: {obstacle or 'passed'}.",
        "",
        "| size | precision | nn.LSTM | " + " | ".join(case.name for case in CASES) + " |",
        "|---" * (3 + len(CASES)) + "|",
    ]
    with torch.device("cuda"):
        for name in names:
            for precision in ("float32", "bfloat16"):
                seconds = {case: _seconds(case, name, precision) for case in (TORCH_LSTM, *CASES)}
                base = seconds[TORCH_LSTM]
                ratios = [f"{seconds[case] / base:.2f}" for case in CASES]
                lines.append(
                    f"| {name} | {precision} | {1e3 * base:.2f} ms | {' | '.join(ratios)} |"
                )
    return "\n".join(lines) + "\n"


def _seconds(case: Case, name: str, precision: str) -> float:
    step = training_step(case, SIZES[name])
    low = precision == "bfloat16"
    with torch.autocast("cuda", torch.bfloat16) if low else nullcontext():
        return median_seconds(step)


def median_seconds(step: Callable[[], None]) -> float:
    """By the GPU's own clock."""
    times = []
    for round_ in range(WARM_UP + ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        end.synchronize()
        if round_ >= WARM_UP:
            times.append(start.elapsed_time(end) / 1e3)
    return statistics.median(times)
