"""The search on associative recall."""

from collections.abc import Mapping, Sequence
from typing import Any

import optuna

from search_spaces.common import DEFAULT_MODELS, at_scale, guesses
from search_spaces.generated import PAPER_SIZES, RECIPES, ROWS, SMOKE_SIZES, search

# What the paper does not say: the recipe of the task in `tardis_core`.
RECIPE: Mapping[str, Any] = {
    "task.draws": 2,
    "memory.address_scale": 0.3,
    "memory.gain": 2.0,
    "training.clip": 1.0,
}
SIZES: Mapping[str, Mapping[str, Any]] = {
    "smoke": {**RECIPE, **SMOKE_SIZES},
    "small": {**RECIPE, **PAPER_SIZES},
    "paper": {**RECIPE, **PAPER_SIZES},
}


def space(
    trial: optuna.Trial,
    scale: str,
    estimators: Sequence[str],
    models: Sequence[str] = DEFAULT_MODELS,
) -> dict[str, Any]:
    """The settings of one trial."""
    return search(trial, scale, estimators, models)


def first_guesses(
    scale: str, estimators: Sequence[str], models: Sequence[str] = DEFAULT_MODELS
) -> list[dict[str, Any]]:
    """The rows of table "NTM tasks": gumbel, and REINFORCE with the auxiliary cost."""
    recipes = at_scale(RECIPES, scale)
    return guesses(ROWS, at_scale(SIZES, scale), estimators, models, recipes)
