"""The search on MNIST as pen strokes."""

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
        "model.recurrent_dropout": share(0.4, 0.05),
        "memory.cells": steps(4, 16, 4),
        "memory.address": choices(2, 4, 8),
        "memory.content": choices(8, 16),
        "training.learning_rate": rate(1e-3, 2e-2),
    },
    "small": {
        **ALWAYS,
        "model.hidden": steps(96, 192, 32),
        "model.recurrent_dropout": share(0.4, 0.05),
        "memory.cells": steps(8, 32, 4),
        "memory.address": choices(4, 8, 16),
        "memory.content": choices(16, 32, 64),
        "training.learning_rate": rate(3e-4, 1e-2),
    },
    "paper": {
        **ALWAYS,
        "model.hidden": steps(192, 384, 64),
        "model.recurrent_dropout": share(0.4, 0.05),
        "memory.cells": steps(8, 64, 4),
        "memory.address": choices(4, 8, 16),
        "memory.content": choices(32, 64, 128),
        "training.learning_rate": rate(2e-4, 5e-3),
    },
}
# The paper gives neither sizes nor a regulariser for this task: those of the presets, none.
SIZES: Mapping[str, Mapping[str, Any]] = {
    "smoke": {
        "model.hidden": 48,
        "model.layer_norm": False,
        "model.recurrent_dropout": 0.0,
        "model.reset_gates": True,
        "memory.cells": 8,
        "memory.address": 4,
        "memory.content": 16,
        "training.learning_rate": 3e-3,
        "training.clip": 1.0,
    },
    "small": {
        "model.hidden": 128,
        "model.layer_norm": False,
        "model.recurrent_dropout": 0.0,
        "model.reset_gates": True,
        "memory.cells": 16,
        "memory.address": 4,
        "memory.content": 32,
        "training.learning_rate": 2e-3,
        "training.clip": 1.0,
    },
    "paper": {
        "model.hidden": 256,
        "model.layer_norm": False,
        "model.recurrent_dropout": 0.0,
        "model.reset_gates": True,
        "memory.cells": 20,
        "memory.address": 8,
        "memory.content": 64,
        "training.learning_rate": 1e-3,
        "training.clip": 1.0,
    },
}
# Table "Per-digit based test error", the best first. It says no more of REINFORCE; the auxiliary
# cost is what the paper trains it with, and the RESET gates are part of the model.
ROWS = (
    Row(TARDIS, "gumbel"),
    Row(TARDIS, REINFORCE, {"estimator.auxiliary": True}),
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
    """Gumbel, then REINFORCE, and the LSTM where it is searched."""
    return guesses(ROWS, at_scale(SIZES, scale), estimators, models)
