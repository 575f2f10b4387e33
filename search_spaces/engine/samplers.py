"""The samplers of a sweep by name: how settings are proposed.

Each is made for one proposal, from a seed: whatever it must remember, it finds in the study. So a
resumed sweep proposes what it would have proposed without the interruption.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, BruteForceSampler, CmaEsSampler, GPSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState

from search_spaces.engine import tpe


def _gp(seed: int) -> BaseSampler:
    """A Gaussian process: for few expensive trials of few settings."""
    with warnings.catch_warnings():
        # Optuna may still change it; pyproject.toml caps its version.
        warnings.simplefilter("ignore", ExperimentalWarning)
        return GPSampler(seed=seed, n_startup_trials=tpe.STARTUP_TRIALS)


def _cmaes(seed: int) -> BaseSampler:
    """CMA-ES over the numbers that all trials have; everything else is drawn at random."""
    return CmaEsSampler(
        seed=seed, n_startup_trials=tpe.STARTUP_TRIALS, warn_independent_sampling=False
    )


class Grid(BruteForceSampler):
    """Every combination once, in random order."""

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Nothing: Optuna's own ends `Study.optimize`, which a sweep does not use."""


def _grid(seed: int) -> BaseSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return Grid(seed=seed)


SAMPLERS: Mapping[str, Callable[[int], Any]] = {
    "tpe": tpe.sampler,
    "random": RandomSampler,
    "gp": _gp,
    "cmaes": _cmaes,
    "grid": _grid,
}


def make_sampler(name: str, seed: int) -> BaseSampler:
    """The sampler called `name` for one proposal."""
    return SAMPLERS[name](seed)
