"""Replay learning curves under every scheduler: is the best trial found, and for how many updates?

python -m benchmarks.speed.schedulers              # curves recorded from real trainings of copy
python -m benchmarks.speed.schedulers --synthetic  # seeded curves that cross
"""

import json
import math
import random
import sys
from collections.abc import Sequence
from statistics import fmean
from types import SimpleNamespace
from typing import Any, NamedTuple

from benchmarks.tools.record_curves import RECORDED
from orchestrator.execution.result import FINISHED, OBJECTIVE
from orchestrator.execution.schedulers.base import SCHEDULERS, Rule, Scheduler
from tardis_core.cli import Parser, command

NAMES = ("none", "asha", "promote")
WORKERS, STEPS = 4, 27
CONTROLLER = SimpleNamespace(get_live_trials=lambda: [SimpleNamespace(status="PENDING")])
Curve = Sequence[float]


class Replay(NamedTuple):
    """What a scheduler has made of some curves."""

    validations: int
    complete: dict[int, float]  # the objective of each trial that ran to its end
    kept: float  # of the best third of all trials at the first rung, the share that went on
    late: int  # trials that ran to their end although they were not in that third


def recorded(rng: random.Random) -> list[Curve]:
    """One curve of each recorded configuration, with one of its seeds, in random order."""
    by_name: dict[str, Curve] = json.loads(RECORDED.read_text())["curves"]
    configurations: dict[str, list[Curve]] = {}
    for name, curve in by_name.items():
        configurations.setdefault(name.partition("/")[0], []).append(curve)
    curves = [rng.choice(seeds) for seeds in configurations.values()]
    rng.shuffle(curves)
    return curves


def synthetic(rng: random.Random, trials: int = 40) -> list[Curve]:
    """Sigmoids from 0.7 down, each at a time and to a value of its own, so that they cross."""
    curves = []
    for _ in range(trials):
        end, middle = rng.uniform(0.0, 0.6), rng.uniform(0, 0.6 * STEPS)
        drift = rng.uniform(0.0, 0.004)  # early progress of all, which differs little

        def value(step: int, end: float = end, middle: float = middle, drift: float = drift):
            fall = 1 / (1 + math.exp((middle - step) / 1.5))
            return 0.7 - drift * step - (0.7 - end) * fall + rng.gauss(0, 0.003)

        curves.append([value(step) for step in range(STEPS)])
    return curves


def replay(name: str, curves: Sequence[Curve], grace: float = 1 / 9) -> Replay:
    """Run trials with these validations on a few workers, as a sweep does."""
    rule = Rule("min", STEPS, grace)
    scheduler = SCHEDULERS.get(name)(rule)
    steps, new = [0] * len(curves), list(range(len(curves)))
    running: list[int] = []
    complete: dict[int, float] = {}
    validations = 0
    while True:
        while len(running) < WORKERS:
            number = _next(scheduler, new, running)
            if number is None:
                break
            running.append(number)
        if not running:
            break
        for number in list(running):
            steps[number] += 1
            validations += 1
            decision = _send(scheduler, number, steps[number], curves[number])
            if steps[number] == STEPS:
                complete[number] = min(curves[number])
            if decision == "STOP" or steps[number] == STEPS:
                running.remove(number)
    ranked = sorted(range(len(curves)), key=lambda number: min(curves[number][: rule.first]))
    third = ranked[: len(curves) // 3]
    kept = fmean(steps[number] > rule.first for number in third)
    return Replay(validations, complete, kept, len(complete.keys() - set(third)))


def _next(scheduler: Scheduler, new: list[int], running: list[int]) -> int | None:
    number = scheduler.promotable(closing=not new and not running)
    if number is not None:
        scheduler.promote(number)
        return number
    if not new:
        return None
    scheduler.on_trial_add(CONTROLLER, _trial(new[0]))
    return new.pop(0)


def _send(scheduler: Scheduler, number: int, step: int, curve: Curve) -> str:
    result: dict[str, Any] = {
        OBJECTIVE: min(curve[:step]),
        "training_iteration": step,
        FINISHED: step == STEPS,
    }
    return scheduler.on_trial_result(CONTROLLER, _trial(number), result)


def _trial(number: int) -> Any:
    return SimpleNamespace(trial_id=str(number), config={"number": number})


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Replay and print one row per scheduler."""
    parser = Parser(
        prog="python -m benchmarks.speed.schedulers", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--synthetic", action="store_true", help="seeded curves that cross")
    parser.add_argument("--rounds", type=int, default=200, help="resamplings (default: 200)")
    parser.add_argument("--grace", type=float, default=1 / 9, help="as of a sweep (default: 1/9)")
    options = parser.parse_args(arguments)
    draw = synthetic if options.synthetic else recorded
    samples = [draw(random.Random(seed)) for seed in range(options.rounds)]
    best = [min(min(curve) for curve in curves) for curves in samples]
    kind = "synthetic" if options.synthetic else "recorded"
    print(
        f"{options.rounds} times {len(samples[0])} {kind} curves, {WORKERS} workers, "
        f"grace {options.grace:.2f}"
    )
    print(
        f"{'scheduler':<10}{'validations':>12}{'best found':>12}{'behind it':>11}{'kept':>7}"
        f"{'late':>7}"
    )
    for name in NAMES:
        replays = [replay(name, curves, options.grace) for curves in samples]
        gaps = [min(each.complete.values()) - b for each, b in zip(replays, best, strict=True)]
        print(
            f"{name:<10}{fmean(each.validations for each in replays):>12.0f}"
            f"{fmean(gap == 0 for gap in gaps):>12.0%}{fmean(gaps):>11.4f}"
            f"{fmean(each.kept for each in replays):>7.0%}"
            f"{fmean(each.late for each in replays):>7.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
