"""How many estimates does the mean of an unbiased estimator need to come near the true gradient?

    python -m benchmarks.tools.rare_estimates

On the exact model of `reproduce estimator-quality` at the end of its training, reads are nearly
certain: a rare other read leads to an estimate hundreds of times as long as the true gradient. A
sample that is too small to contain one has a mean that looks biased, with a small standard error.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from orchestrator.paper.estimator_quality import BUDGETS, exact_stages, exact_truth
from tardis_core.analysis.estimator_quality import (
    Problem,
    addressing_mask,
    estimate,
    network_of,
)

COUNTS = (500, 2000, 8000, 20_000)
SEED = 7  # of the estimates


class Sample(NamedTuple):
    """A sample of estimates, relative to the length of the true gradient."""

    count: int
    distance: float  # of the mean from the truth
    error: float  # standard error of the mean
    largest: float  # the longest estimate


def samples(name: str, problem: Problem, counts: tuple[int, ...]) -> Iterator[Sample]:
    """One sample that grows: what can be seen of it at each count."""
    network = network_of(problem, name, {})
    mask_N = addressing_mask(network)
    truth_N = exact_truth(problem).gradient_N[mask_N].double()
    generator, length = torch.Generator().manual_seed(SEED), float(truth_N.norm())
    total_N, squares, largest, drawn = torch.zeros_like(truth_N), 0.0, 0.0, 0
    for count in counts:
        for _ in range(count - drawn):
            gradient_N = estimate(network, problem, generator)[mask_N].double()
            total_N += gradient_N
            squares += float(gradient_N.square().sum())
            largest = max(largest, float(gradient_N.norm()))
        drawn = count
        mean_N = total_N / drawn
        yield Sample(
            drawn,
            float((mean_N - truth_N).norm()) / length,
            _standard_error(squares, mean_N, drawn) / length,
            largest / length,
        )


def _standard_error(squares: float, mean_N: Tensor, count: int) -> float:
    return float(((squares / count - float(mean_N.square().sum())) / count) ** 0.5)


def main() -> None:
    """Print one row per estimator and size of its sample."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", default="small", choices=list(BUDGETS))
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    *_, (_, _, problem) = exact_stages(BUDGETS[options.scale], seed=0)
    print("| estimator | estimates | distance of their mean | standard error | largest estimate |")
    print("|---|---|---|---|---|")
    for name in ("counterfactual", "rloo"):
        for each in samples(name, problem, tuple(options.counts)):
            numbers = f"{each.distance:.2f} | {each.error:.2f} | {each.largest:,.0f}"
            print(f"| `{name}` | {each.count:,} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
