"""Compile the Triton kernels for real GPUs without having one, and count the launches of a step.

    python -m benchmarks.speed.gpu_kernels

Prints one row per kernel and size: the most registers per thread, the bytes spilled and the bytes
of shared memory per block, for compute capabilities 8.0, 9.0 and 10.0; then an estimate of the time
of a training step on one GPU, which is not a measurement. Updates docs/performance.md. Takes a few
minutes the first time.
"""

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.speed.cases import SIZES, Case, Size, build
from tardis_core.kernels import ahead_of_time, triton_sequence
from tardis_core.kernels.ahead_of_time import Launch, Resources
from tardis_core.kernels.inputs import Fixed, Trained
from tardis_core.models.tardis_tensors import kernel_tensors

PAGE = Path("docs/performance.md")
BEGIN = "<!-- compiled: python -m benchmarks.speed.gpu_kernels -->"
END = "<!-- end of what was compiled -->"
LARGEST = Size(4, 32, 50, 2048, 1024, 256, 16)  # the greatest that the kernels are meant for
CASES = [Case(kind, "triton", norm) for kind in ("gumbel", "reinforce") for norm in (False, True)]


def main() -> int:
    """Compile everything, print the table and put it into the page."""
    rows = [_row(name, size) for name, size in {**SIZES, "largest": LARGEST}.items()]
    compiled = "\n".join(_header() + [line for lines in rows for line in lines])
    table = f"{compiled}\n\n{estimates()}"
    print(table)
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if rest:
        PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")
    return 0


class Gpu(NamedTuple):
    """What an estimate takes from the data sheet of a GPU, and from experience."""

    name: str
    flops: float  # per second, single precision
    tensor_flops: float  # per second, bfloat16
    bandwidth: float  # bytes per second
    launch: float  # seconds from one kernel of a graph to the next
    efficiency: float = 0.5  # share of the peak that products of this size reach


A100 = Gpu("NVIDIA A100", 19.5e12, 312e12, 2.0e12, 2.5e-6)
LAUNCHES = 8  # per time step, forward and backward


def estimates(gpu: Gpu = A100) -> str:
    """The time of a training step by launches, arithmetic and memory, for TARDIS."""
    lines = [
        f"Estimated for an {gpu.name}, not measured: {LAUNCHES} launches per time step at "
        f"{1e6 * gpu.launch:g} us, {100 * gpu.efficiency:.0f} % of the peak in products, the tape "
        "written once and read twice.",
        "",
        "| size | launches | launches, ms | products in float32, ms | in bfloat16, ms | tape, ms |",
        "|---|---|---|---|---|---|",
    ]
    for name, size in SIZES.items():
        launches = LAUNCHES * size.T
        flops, tape = 3 * size.T * _flops(size), 3 * 4 * size.T * _tape(size)
        lines.append(
            f"| {name} | {launches:,} | {1e3 * launches * gpu.launch:.1f} | "
            f"{1e3 * flops / gpu.flops / gpu.efficiency:.1f} | "
            f"{1e3 * flops / gpu.tensor_flops / gpu.efficiency:.1f} | "
            f"{1e3 * tape / gpu.bandwidth:.1f} |"
        )
    return "\n".join(lines)


def _flops(size: Size) -> float:
    """Of the products of one step forward; backward has twice as many."""
    H, P, G = size.H, size.H // 4, 4 * size.H + 2
    columns = size.C + P + G + P
    inputs = size.D * (G + P)
    return 2.0 * size.B * (H * columns + (size.A + size.C) * G + inputs)


def _tape(size: Size) -> int:
    """Numbers that one step leaves for backward."""
    H, P, Q = size.H, size.H // 4, size.A + size.C
    return size.B * (4 * H + 2 + 5 * H + Q + 2 * P + 2 * size.K + size.C)


def _header() -> list[str]:
    heads = [f"sm_{each}: registers, spilled, shared" for each in ahead_of_time.SHARED_MEMORY]
    return [
        "| size | kernel | warps | " + " | ".join(heads) + " |",
        "|---" * (3 + len(heads)) + "|",
    ]


def _row(name: str, size: Size) -> list[str]:
    """The lines of one size: of every kernel the variant that needs most."""
    launches = {each for case in CASES for each in launches_of(case, size)}
    worst: dict[str, dict[int, Resources]] = defaultdict(dict)
    warps: dict[str, int] = {}
    for launch in sorted(launches):
        warps[launch.kernel] = dict(launch.options)["num_warps"]
        for capability in ahead_of_time.SHARED_MEMORY:
            resources = ahead_of_time.compiled(launch, capability)
            before = worst[launch.kernel].get(capability, Resources(0, 0, 0, 0))
            worst[launch.kernel][capability] = Resources(*map(max, before, resources))
    return [
        f"| {name} | `{kernel}` | {warps[kernel]} | "
        + " | ".join(f"{r.registers}, {r.spilled}, {r.shared}" for r in resources.values())
        + " |"
        for kernel, resources in worst.items()
    ]


def launches_of(case: Case, size: Size) -> list[Launch]:
    """What two steps of a model launch, on tensors that have shapes and no numbers."""
    trained, fixed = _tensors(case, size)
    with ahead_of_time.recorded_launches() as launches:
        outputs = triton_sequence.run(trained, fixed)
        loss = outputs.h_TBH.sum() + outputs.pi_TBK.sum()
        loss.backward()
    return launches


def _tensors(case: Case, size: Size) -> tuple[Trained, Fixed]:
    model = build(case, size)
    x_TBD = torch.empty(2, size.B, size.D, requires_grad=True)
    noise = model.draw_noise(x_TBD, torch.Generator())
    trained, fixed = kernel_tensors(model, x_TBD, None, None, noise)
    return Trained._make(map(_shape, trained)), Fixed._make(map(_shape, fixed))


def _shape(value: Any) -> Any:
    """A tensor without its numbers; anything else as it is."""
    if not isinstance(value, Tensor):
        return value
    return torch.empty_like(value, device="meta").requires_grad_(value.requires_grad)


if __name__ == "__main__":
    sys.exit(main())
