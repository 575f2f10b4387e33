"""The same search for every estimator, so that their recipes are found at equal cost.

    python -m orchestrator.sweep copy --space examples/estimator_space.py --estimators reinmax \\
        --seeds-per-trial 2 --aggregate worst --race --grace 1 --trials 8

All estimators share the ranges of what every one of them has, and begin with the same two points:
those that earlier searches found for gumbel and for a policy (docs/notebook.md). Each has ranges
for settings of its own; what is not searched keeps the preset of the task.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution

from search_spaces.engine.ranges import SWITCH, ask, choices, rate
from tardis_core.config import make_config, setting_names

RANGES: Mapping[str, BaseDistribution] = {
    "training.learning_rate": rate(1e-3, 6e-3),
    "training.clip": rate(0.2, 2.0),
    "memory.match": SWITCH,
    "memory.gain": rate(0.5, 9.0),  # influence of contents and addresses on the choice of a cell
    "memory.address_scale": rate(0.1, 3.0),
    "estimator.temperature": rate(0.3, 3.0),
    "estimator.final_temperature": rate(0.02, 1.0),
    "estimator.weight": rate(0.03, 10.0),
    "estimator.rate": rate(1.0, 5.0),
    "estimator.gamma": choices(0.8, 0.9, 1.0),
    "estimator.entropy": rate(0.003, 0.3),
}
# By address and by content: learning rate, clip, match, gain, scale of the addresses.
STARTS: Mapping[str, Sequence[tuple[float, float, bool, float, float]]] = {
    "copy": [(2e-3, 0.6, False, 1.7, 2.6), (3e-3, 0.5, True, 3.0, 1.0)],
    "recall": [(3e-3, 1.0, False, 2.0, 0.3), (3e-3, 1.0, True, 6.0, 0.1)],
}


def space(
    trial: optuna.Trial, scale: str, estimators: Sequence[str], task: str = "copy"
) -> dict[str, Any]:
    """The estimator, and those of the settings above that it has."""
    estimator = trial.suggest_categorical("estimator", list(estimators))
    searched = {name: ask(trial, name, RANGES[name]) for name in searched_by(task, estimator)}
    return {"estimator": estimator, **searched}


def first_guesses(
    scale: str, estimators: Sequence[str], task: str = "copy"
) -> list[dict[str, Any]]:
    """Both starting points, with the preset of what only this estimator has."""
    return [
        {
            "estimator": estimator,
            **presets(task, estimator, scale),
            **dict(zip(RANGES, start, strict=False)),
        }
        for estimator in estimators
        for start in STARTS[task]
    ]


def presets(task: str, estimator: str, scale: str) -> dict[str, Any]:
    """The searched settings with the values that they have without a search."""
    settings = make_config(task, "tardis", estimator, scale).settings()
    return {name: settings[name] for name in searched_by(task, estimator)}


def searched_by(task: str, estimator: str) -> list[str]:
    """The names of the settings that TARDIS with this estimator has, in the order above."""
    names = setting_names(task, "tardis", estimator)
    return [name for name in RANGES if name in names]
