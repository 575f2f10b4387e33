"""Replay races of configurations on recorded trainings: the same winner, for how many runs?

python -m benchmarks.speed.race              # curves recorded from real trainings of copy
python -m benchmarks.speed.race --synthetic  # seeded values: configurations and seeds normal
"""

import json
import random
import sys
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from benchmarks.tools.record_curves import RECORDED
from orchestrator.execution.race import Complete, is_clearly_worse
from tardis_core.cli import Parser, command

WORKERS = 4
Configuration = Sequence[Sequence[float]]  # the validations of each of its seeds


class Outcome(NamedTuple):
    """Who won, and how many trainings it took."""

    winner: int
    runs: int


def recorded(rng: random.Random) -> list[Configuration]:
    """The recorded configurations in random order, each with seeds drawn from its own."""
    by_name: dict[str, list[float]] = json.loads(RECORDED.read_text())["curves"]
    seeds: dict[str, list[list[float]]] = {}
    for name, curve in by_name.items():
        seeds.setdefault(name.partition("/")[0], []).append(curve)
    most = max(map(len, seeds.values()))
    whole = [curves for curves in seeds.values() if len(curves) == most]
    configurations = [rng.choices(curves, k=most) for curves in whole]
    rng.shuffle(configurations)
    return configurations


def synthetic(rng: random.Random) -> list[Configuration]:
    """Normal configurations, and seeds that differ half as much as they."""
    means = [rng.gauss(0.5, 0.1) for _ in range(24)]
    return [[[rng.gauss(mean, 0.05)] for _ in range(4)] for mean in means]


def objective(seeds: Configuration, aggregate: str) -> float:
    """As a trial computes it: the best validation of all seeds together."""
    join = max if aggregate == "worst" else fmean
    return min(join(values) for values in zip(*seeds, strict=True))


def race(configurations: Sequence[Configuration], aggregate: str) -> Outcome:
    """Race on a few workers: a decision knows the trials that were complete when it was made."""
    seeds = len(configurations[0])
    complete: dict[int, Complete] = {}
    ends: list[tuple[int, int]] = []  # of the trials that train their other seeds
    free, runs = [0] * WORKERS, 0
    for number, configuration in enumerate(configurations):
        worker = free.index(min(free))
        now = free[worker] + 1  # its first seed has ended
        known = [complete[other] for end, other in ends if end <= now]
        first = min(configuration[0])
        runs += 1
        if not is_clearly_worse(first, known, aggregate, -1.0):
            runs, now = runs + seeds - 1, now + seeds - 1
            values = [min(curve) for curve in configuration]
            complete[number] = Complete(objective(configuration, aggregate), values)
            ends.append((now, number))
        free[worker] = now
    return Outcome(min(complete, key=lambda number: complete[number].value), runs)


def full(configurations: Sequence[Configuration], aggregate: str) -> Outcome:
    """All seeds of all configurations."""
    values = [objective(each, aggregate) for each in configurations]
    return Outcome(values.index(min(values)), sum(map(len, configurations)))


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Replay and print one row per way to judge seeds together."""
    parser = Parser(
        prog="python -m benchmarks.speed.race", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--synthetic", action="store_true", help="seeded values, not recorded ones")
    parser.add_argument("--rounds", type=int, default=1000, help="resamplings (default: 1000)")
    options = parser.parse_args(arguments)
    draw = synthetic if options.synthetic else recorded
    samples = [draw(random.Random(seed)) for seed in range(options.rounds)]
    first = samples[0]
    print(f"{options.rounds} resamplings of {len(first)} configurations with {len(first[0])} seeds")
    print(f"{'aggregate':<10}{'same winner':>12}{'runs':>8}")
    for aggregate in ("worst", "mean"):
        pairs = [(race(each, aggregate), full(each, aggregate)) for each in samples]
        same = fmean(raced.winner == whole.winner for raced, whole in pairs)
        share = fmean(raced.runs / whole.runs for raced, whole in pairs)
        print(f"{aggregate:<10}{same:>12.1%}{share:>8.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
