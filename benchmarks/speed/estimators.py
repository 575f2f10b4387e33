"""What an update takes with each estimator, beside gumbel: `python -m benchmarks.speed.estimators`.

Whole updates of copy at the paper's sizes, in milliseconds of one processor. The counterfactual
estimator tries cells at one of all steps, the longest that it can take.
"""

import argparse
import sys
from collections.abc import Sequence

import torch

from benchmarks.speed.measure import medians
from tardis_core.build import load_data
from tardis_core.config import make_config
from tardis_core.training.loop import Trainer

LONGEST = 20  # vectors
CASES = {
    "gumbel": {},
    "straight-through": {},
    "straight-through learned": {"estimator.learned": True},
    "gumbel-rao": {},
    "reinmax": {},
    "reinforce": {},
    "rloo": {},
    "counterfactual": {"estimator.window": 2 * LONGEST + 2},
    "counterfactual likeliest": {"estimator.window": 2 * LONGEST + 2, "estimator.likeliest": 4},
    "soft": {},
}


def trainer(case: str, cells: int, longest: int) -> Trainer:
    """A training of copy whose sequences all have the same length."""
    settings = {
        "memory.cells": cells,
        "task.shortest": longest,
        "task.longest": longest,
        "memory.vary_cells_from": 1.0,
        **CASES[case],
    }
    config = make_config("copy", "tardis", case.split()[0], "paper", overrides=settings)
    return Trainer(config, load_data(config))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one row per estimator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, nargs="+", default=[16, 64], help="memory cells")
    parser.add_argument("--seconds", type=float, default=60.0, help="per number of cells")
    parser.add_argument("--longest", type=int, default=LONGEST, help="vectors of a sequence")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    columns = []
    for cells in options.cells:
        steps = {case: trainer(case, cells, options.longest).step for case in CASES}
        columns.append(medians(steps, options.seconds, slow=("soft",)))
    titles = [f"K = {cells}, ms | beside gumbel" for cells in options.cells]
    print(f"| estimator | {' | '.join(titles)} |")
    print("|---" * (1 + 2 * len(columns)) + "|")
    for case in CASES:
        cells = [f"{1000 * each[case]:.1f} | {each[case] / each['gumbel']:.2f}" for each in columns]
        print(f"| {case} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
