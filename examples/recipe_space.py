"""A search around a recipe: what is right to a factor, near where it is; several seeds a trial.

    python -m orchestrator.sweep copy --space examples/recipe_space.py --estimators gumbel \\
        --scale paper --seeds-per-trial 2 --judge worst --grace 1 --set training.updates=3000

What is not returned stays as it is in the recipe of the task (`tardis_core/tasks/copy.py`).
"""

from collections.abc import Sequence
from typing import Any

import optuna

from tardis_core.config import make_config

# Searched from the recipe's value divided by this to that times this; what is off stays off.
FACTORS = {
    "training.learning_rate": 2,
    "training.clip": 4,
    "memory.gain": 3,  # how much contents and addresses say in the choice of a cell ...
    "memory.address_scale": 3,  # ... and how much of that the addresses
    "estimator.weight": 3,  # of the policy beside the loss of the task
    "estimator.rate": 3,  # how fast it learns
    "estimator.entropy": 3,  # how long it stays undecided
}


def space(
    trial: optuna.Trial, scale: str, estimators: Sequence[str], task: str = "copy"
) -> dict[str, Any]:
    """Numbers that are right to a factor."""
    estimator = trial.suggest_categorical("estimator", list(estimators))
    settings: dict[str, Any] = {"estimator": estimator}
    for name, value in recipe(task, estimator, scale).items():
        factor = FACTORS[name]
        settings[name] = trial.suggest_float(name, value / factor, value * factor, log=True)
    return settings


def first_guesses(
    scale: str, estimators: Sequence[str], task: str = "copy"
) -> list[dict[str, Any]]:
    """The recipe itself: what a search must beat."""
    return [{"estimator": name, **recipe(task, name, scale)} for name in estimators]


def recipe(task: str, estimator: str, scale: str) -> dict[str, float]:
    """What is searched, as the recipe has it."""
    settings = make_config(task, "tardis", estimator, scale).settings()
    return {name: settings[name] for name in FACTORS if settings.get(name)}
