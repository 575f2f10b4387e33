"""Search around the recipe of a task, with several seeds per trial.

    python -m orchestrator.sweep copy --space examples/recipe_space.py --estimators gumbel \\
        --scale paper --seeds-per-trial 2 --aggregate worst --grace 1 --set training.updates=3000

Settings that are not returned keep the values of the recipe (`tardis_core/tasks/copy.py`).
"""

from collections.abc import Sequence
from typing import Any

import optuna

from tardis_core.config import make_config

# Each setting is searched between the recipe's value divided and multiplied by its factor; settings
# that are off stay off.
FACTORS = {
    "training.learning_rate": 2,
    "training.clip": 4,
    "memory.gain": 3,  # influence of contents and addresses on the choice of a cell ...
    "memory.address_scale": 3,  # ... and the share of the addresses
    "estimator.weight": 3,  # of the policy loss relative to the task's
    "estimator.rate": 3,  # learning rate of the policy
    "estimator.entropy": 3,  # how long the policy explores
}


def space(
    trial: optuna.Trial, scale: str, estimators: Sequence[str], task: str = "copy"
) -> dict[str, Any]:
    """The estimator, and each setting near its value in the recipe."""
    estimator = trial.suggest_categorical("estimator", list(estimators))
    settings: dict[str, Any] = {"estimator": estimator}
    for name, value in recipe(task, estimator, scale).items():
        factor = FACTORS[name]
        settings[name] = trial.suggest_float(name, value / factor, value * factor, log=True)
    return settings


def first_guesses(
    scale: str, estimators: Sequence[str], task: str = "copy"
) -> list[dict[str, Any]]:
    """The recipe itself, which the search has to beat."""
    return [{"estimator": name, **recipe(task, name, scale)} for name in estimators]


def recipe(task: str, estimator: str, scale: str) -> dict[str, float]:
    """The searched settings with the values of the recipe."""
    settings = make_config(task, "tardis", estimator, scale).settings()
    return {name: settings[name] for name in FACTORS if settings.get(name)}
