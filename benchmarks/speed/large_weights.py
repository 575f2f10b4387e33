"""Time of a training step whose read logits have large weights, as trained models have.

python -m benchmarks.speed.large_weights    # a minute, one thread; prints a Markdown table
"""

import sys
from collections.abc import Sequence

import torch

from benchmarks.speed.cases import SIZES, Case, training_step
from benchmarks.speed.measure import machine, medians
from benchmarks.speed.step import table
from tardis_core.cli import Parser, command
from tardis_core.models.base import SequenceModel
from tardis_core.models.tardis import Tardis

CASE = Case("gumbel", norm=True)
FACTOR = 100.0  # brings W_m M[k] far beyond where a product of exponentials overflows


def enlarge(model: SequenceModel) -> None:
    """Multiply what reads the memory for the choice of a cell."""
    assert isinstance(model, Tardis)
    with torch.no_grad():
        model.addressing.W_m.weight.mul_(FACTOR)


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every size and print."""
    parser = Parser(
        prog="python -m benchmarks.speed.large_weights",
        description=(__doc__ or "").splitlines()[0],
    )
    parser.add_argument("--seconds", type=float, default=15, help="per size (default: 15)")
    parser.add_argument("--size", choices=SIZES, help="this size alone (default: all)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = []
    for name, size in SIZES.items():
        if options.size in (None, name):
            runs = {
                "initial": training_step(CASE, size),
                "large": training_step(CASE, size, enlarge),
            }
            times = medians(runs, options.seconds)
            rows.append(
                [name, f"{1000 * times['initial']:.1f}", f"{times['large'] / times['initial']:.2f}"]
            )
    print(f"Measured on {machine()}, one thread.\n")
    print(table(["size", "initial weights, ms", "large weights, multiple"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
