"""A search around a recipe: only what decides, near where it works, every trial with several seeds.

    python -m orchestrator.sweep recall --space examples/recipe_space.py --estimators reinforce \\
        --scale paper --seeds-per-trial 2 --judge worst --set training.updates=2500

What is not returned stays as it is in the recipe (`tardis_core/tasks/recall.py`).
"""

from collections.abc import Sequence
from typing import Any

import optuna

RANGES = {
    "memory.gain": (2.0, 12.0),  # how sharply contents are compared ...
    "memory.address_scale": (0.03, 0.3),  # ... beside the addresses
    "estimator.weight": (1.0, 10.0),  # of the policy beside the loss of the task
    "estimator.entropy": (0.001, 0.03),  # how long reads stay undecided
}


def space(trial: optuna.Trial, scale: str, estimators: Sequence[str]) -> dict[str, Any]:
    """Four numbers that are right to a factor, and the share of the auxiliary reward."""
    settings: dict[str, Any] = {
        "estimator": trial.suggest_categorical("estimator", list(estimators)),
        "estimator.auxiliary_share": trial.suggest_float(
            "estimator.auxiliary_share", 0.0, 0.4, step=0.1
        ),
    }
    for name, (low, high) in RANGES.items():
        settings[name] = trial.suggest_float(name, low, high, log=True)
    return settings


def first_guesses(scale: str, estimators: Sequence[str]) -> list[dict[str, Any]]:
    """Where the search begins: what was found by hand, with a little of the auxiliary reward."""
    found = {
        "estimator.auxiliary_share": 0.1,
        "memory.gain": 6.0,
        "memory.address_scale": 0.1,
        "estimator.weight": 4.0,
        "estimator.entropy": 0.006,
    }
    return [{"estimator": name, **found} for name in estimators]
