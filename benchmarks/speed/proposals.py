"""The sampler of a sweep compared with Optuna's own, which considers all trials.

    python -m benchmarks.speed.proposals time       # per proposal, in synthetic studies
    python -m benchmarks.speed.proposals search     # best of 600 trials on a synthetic objective

Times are CPU times, which exclude other work on the machine.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from statistics import median

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import Trial, TrialState

import search_spaces
from search_spaces.engine.tpe import STARTUP_TRIALS, sampler

SIZES, ROUNDS = (100, 1_000, 4_000), 11
TRIALS, SEEDS = 600, 8
SHARED, BRANCH = 6, 2  # parameters of all points, further parameters of one of two kinds


def unbounded(seed: int) -> BaseSampler:
    """Optuna's TPE with the same options."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return TPESampler(
            n_startup_trials=STARTUP_TRIALS,
            multivariate=True,
            group=True,
            constant_liar=True,
            seed=seed,
        )


SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {"bounded": sampler, "all trials": unbounded}


def synthetic_study(size: int) -> tuple[optuna.Study, Callable[[Trial], object]]:
    """Random points of the space of ptb, half of them pruned, with random values."""
    space = search_spaces.bind(search_spaces.load("ptb"), "small", ("gumbel", "reinforce"))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    rng = np.random.default_rng(0)
    for number in range(size):
        trial = study.ask()
        space(trial)
        trial.report(float(rng.random()), 1)
        if number % 2:
            study.tell(trial, state=TrialState.PRUNED)
        else:
            study.tell(trial, float(rng.random()))
    return study, space


def seconds_per_proposal(study: optuna.Study, space: Callable[[Trial], object], name: str) -> float:
    """Median time of several proposals, none of which is evaluated."""
    seconds = []
    for seed in range(ROUNDS):
        study.sampler = SAMPLERS[name](seed)
        began = time.process_time()
        trial = study.ask()
        space(trial)
        seconds.append(time.process_time() - began)
        study.tell(trial, state=TrialState.FAIL)
    return median(seconds)


def print_times() -> None:
    """Print one row per size."""
    print("| trials | bounded, ms | all trials, ms |\n|---|---|---|", flush=True)
    for size in SIZES:
        study, space = synthetic_study(size)
        each = [1e3 * seconds_per_proposal(study, space, name) for name in SAMPLERS]
        print(f"| {size:,} | " + " | ".join(f"{ms:.0f}" for ms in each) + " |", flush=True)


class Objective:
    """A rotated bowl with ripples over two kinds of points, one of which is slightly worse."""

    def __init__(self, seed: int) -> None:
        rng, size = np.random.default_rng(seed), SHARED + BRANCH
        self.rotation, _ = np.linalg.qr(rng.normal(size=(size, size)))
        self.best = rng.uniform(0.15, 0.85, size=size)
        self.weight = 10 ** np.linspace(0, -1.5, size)

    def __call__(self, trial: Trial) -> float:
        values = [trial.suggest_float(f"x{i}", 0, 1) for i in range(SHARED)]
        wide = trial.suggest_categorical("kind", ["narrow", "wide"]) == "wide"
        values += [trial.suggest_float(f"y{i}", 0, 1) if wide else 0.9 for i in range(BRANCH)]
        away = np.array(values) - self.best
        bowl = (self.weight * (self.rotation @ away) ** 2).sum()
        ripples = 0.02 * (1 - np.cos(6 * np.pi * away)).mean()
        return float(bowl + ripples) + (0.0 if wide else 0.05)


def best_value(name: str, seed: int) -> float:
    """Best value of a search with two concurrent trials, in which bad starts are pruned."""
    study, objective = optuna.create_study(), Objective(seed)
    rng, starts, running = np.random.default_rng(seed), list[float](), list[tuple[Trial, float]]()
    for number in range(TRIALS):
        study.sampler = SAMPLERS[name](seed * 1_000_003 + number)
        trial = study.ask()
        running.append((trial, objective(trial)))
        if len(running) < 2:
            continue
        trial, value = running.pop(0)
        start = value * 1.3 + 0.02 * float(rng.normal())
        trial.report(start, 1)
        bad = len(starts) > STARTUP_TRIALS and start > median(starts)
        study.tell(trial, None if bad else value, state=TrialState.PRUNED if bad else None)
        starts.append(start)
    return study.best_value


def print_search() -> None:
    """Print one row per seed."""
    print(f"best of {TRIALS} trials\n\n| seed | bounded | all trials |\n|---|---|---|", flush=True)
    for seed in range(SEEDS):
        values = [best_value(name, seed) for name in SAMPLERS]
        print(f"| {seed} | " + " | ".join(f"{value:.5f}" for value in values) + " |", flush=True)


def main() -> int:
    """Run one of the comparisons."""
    jobs = {"time": print_times, "search": print_search}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=jobs)
    part = parser.parse_args().part
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    jobs[part]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
