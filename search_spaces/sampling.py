"""How a sweep proposes trials."""

import warnings

import optuna
from optuna.exceptions import ExperimentalWarning

# Trials before TPE begins to model, the first guesses among them: it needs a few of each estimator.
STARTUP_TRIALS = 10


def sampler(seed: int) -> optuna.samplers.TPESampler:
    """TPE over the joint distribution, branch by branch, aware of the trials still running."""
    with warnings.catch_warnings():
        # Optuna may yet change these three; constraints.txt holds its version.
        warnings.filterwarnings(
            "ignore",
            message=r".*``(multivariate|group|constant_liar)``",
            category=ExperimentalWarning,
        )
        return optuna.samplers.TPESampler(
            n_startup_trials=STARTUP_TRIALS,
            multivariate=True,  # sizes and rates go together
            group=True,  # a conditional space is modelled by its branches
            constant_liar=True,  # trials at the same time keep apart
            seed=seed,
        )
