"""Time of a training step with products in bfloat16, as a share of that in float32.

python -m benchmarks.speed.precision    # two minutes, one thread; prints a Markdown table
"""

import sys
from collections.abc import Callable, Sequence

import torch

from benchmarks.speed.cases import SIZES, Case, Size, training_step
from benchmarks.speed.measure import machine, medians
from benchmarks.speed.step import table
from tardis_core.cli import Parser, command
from tardis_core.errors import UserError
from tardis_core.kernels import library

CASES = (Case("lstm", norm=True), Case("gumbel", norm=True), Case("reinforce", norm=True))


def rounded(case: Case, size: Size) -> Callable[[], None]:
    """A training step whose products round their factors to bfloat16."""
    step = training_step(case, size)

    def run() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            step()

    return run


def shares(size: Size, seconds: float) -> list[str]:
    """The time of each case in bfloat16, divided by its time in float32."""
    runs = {case.kind: training_step(case, size) for case in CASES}
    runs |= {f"{case.kind}, rounded": rounded(case, size) for case in CASES}
    times = medians(runs, seconds)
    return [f"{times[f'{case.kind}, rounded'] / times[case.kind]:.2f}" for case in CASES]


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every size and print."""
    parser = Parser(
        prog="python -m benchmarks.speed.precision", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--seconds", type=float, default=20, help="per size (default: 20)")
    parser.add_argument("--size", choices=SIZES, help="this size alone (default: all)")
    options = parser.parse_args(arguments)
    if library.bf16_level() is None:
        raise UserError("this CPU has no instructions for bfloat16 (AVX512_BF16)")
    torch.set_num_threads(1)
    rows = []
    for name, size in SIZES.items():
        if options.size in (None, name):
            rows.append([name, *shares(size, options.seconds)])
    print(f"Measured on {machine()}, one thread.\n")
    print(table(["size", *(case.kind for case in CASES)], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
