"""The search on characters of the Penn Treebank."""

from collections.abc import Mapping, Sequence
from typing import Any

import optuna

from search_spaces.common import (
    DEFAULT_MODELS,
    REINFORCE,
    SWITCH,
    TARDIS,
    Ranges,
    Row,
    ask_known,
    ask_model,
    ask_own,
    ask_reinforce,
    at_scale,
    choices,
    guesses,
    rate,
    share,
    steps,
)

ALWAYS: Ranges = {
    "model.layer_norm": SWITCH,
    "model.reset_gates": SWITCH,
    "training.clip": rate(0.25, 4.0),
}
# Around the presets of the scales; contents are narrower than the narrowest hidden state, because
# a micro-state is a summary (the paper's d_h > d_m).
RANGES: Mapping[str, Ranges] = {
    "smoke": {
        **ALWAYS,
        "model.hidden": steps(24, 48, 8),
        "model.recurrent_dropout": share(0.3, 0.05),
        "memory.cells": steps(4, 16, 4),
        "memory.address": choices(2, 4, 8),
        "memory.content": choices(8, 16),
        "training.learning_rate": rate(1e-3, 2e-2),
    },
    "small": {
        **ALWAYS,
        "model.hidden": steps(128, 384, 64),
        "model.recurrent_dropout": share(0.4, 0.05),
        "memory.cells": steps(8, 32, 4),
        "memory.address": choices(4, 8, 16),
        "memory.content": choices(16, 32, 64),
        "training.learning_rate": rate(5e-4, 1e-2),
    },
    "paper": {
        **ALWAYS,
        "model.hidden": steps(600, 1400, 200),
        "model.recurrent_dropout": share(0.5, 0.05),
        "memory.cells": steps(8, 64, 4),
        "memory.address": choices(4, 8, 16),
        "memory.content": choices(50, 100, 200),
        "training.learning_rate": rate(3e-4, 6e-3),
    },
}
# The paper names layer normalisation and recurrent dropout; the sizes are those of the presets.
SIZES: Mapping[str, Mapping[str, Any]] = {
    "smoke": {
        "model.hidden": 48,
        "model.layer_norm": True,
        "model.recurrent_dropout": 0.05,
        "model.reset_gates": True,
        "memory.cells": 8,
        "memory.address": 4,
        "memory.content": 16,
        "training.learning_rate": 5e-3,
        "training.clip": 1.0,
    },
    "small": {
        "model.hidden": 256,
        "model.layer_norm": True,
        "model.recurrent_dropout": 0.05,
        "model.reset_gates": True,
        "memory.cells": 20,
        "memory.address": 8,
        "memory.content": 64,
        "training.learning_rate": 3e-3,
        "training.clip": 1.0,
    },
    "paper": {
        "model.hidden": 1000,
        "model.layer_norm": True,
        "model.recurrent_dropout": 0.25,
        "model.reset_gates": True,
        "memory.cells": 20,
        "memory.address": 8,
        "memory.content": 100,
        "training.learning_rate": 2e-3,
        "training.clip": 1.0,
    },
}
# What the presets set differently for a model.
RECIPES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "smoke": {"hyperlstm": {"model.hyper_hidden": 16, "model.hyper_embedding": 4}},
    "small": {},
    "paper": {"hyperlstm": {"model.hyper_hidden": 128, "model.hyper_embedding": 16}},
}
# Table "Character-level language modelling", the best first; "+ R" are the RESET gates.
ROWS = (
    Row(TARDIS, "gumbel"),
    Row(TARDIS, REINFORCE, {"estimator.auxiliary": True}),
    Row(TARDIS, REINFORCE, {"estimator.auxiliary": True, "model.reset_gates": False}),
    Row(TARDIS, REINFORCE, {"estimator.auxiliary": False}),
    Row("lstm"),
)


def space(
    trial: optuna.Trial,
    scale: str,
    estimators: Sequence[str],
    models: Sequence[str] = DEFAULT_MODELS,
) -> dict[str, Any]:
    """The settings of one trial."""
    ranges = at_scale(RANGES, scale)
    settings = ask_model(trial, estimators, models)
    model = settings["model"]
    settings |= ask_known(trial, ranges, model, "model.hidden", "model.layer_norm")
    settings |= ask_known(trial, ranges, model, "model.recurrent_dropout")
    settings |= ask_known(trial, ranges, model, "training.learning_rate", "training.clip")
    settings |= ask_known(trial, ranges, model, "memory.cells", "memory.address", "memory.content")
    settings |= ask_known(trial, ranges, model, "model.reset_gates")
    settings |= ask_own(trial, model)
    if settings["estimator"] == REINFORCE:
        settings |= ask_reinforce(trial)
    return settings


def first_guesses(
    scale: str, estimators: Sequence[str], models: Sequence[str] = DEFAULT_MODELS
) -> list[dict[str, Any]]:
    """Gumbel + ST + R, then REINFORCE + Aux + R, + Aux, + R, and the LSTM where it is searched."""
    recipes = at_scale(RECIPES, scale)
    return guesses(ROWS, at_scale(SIZES, scale), estimators, models, recipes)
