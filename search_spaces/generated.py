"""What the spaces of copy and recall share: the paper sets both tasks up alike."""

from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import FloatDistribution, IntDistribution

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
    rate,
    steps,
)

# There is no dropout: the sequences never repeat, and the cost has to go to zero.
ALWAYS: Ranges = {
    "task.draws": IntDistribution(1, 3),  # 1: all lengths alike; 3: mostly long ones
    "model.layer_norm": SWITCH,
    "model.reset_gates": SWITCH,
    "model.reset_bias": FloatDistribution(0.0, 4.0, step=1.0),  # from half open to open
    # Loud addresses drown the contents in the read logits; the gain raises both.
    "memory.address_scale": rate(0.1, 1.0),
    "memory.gain": rate(0.5, 4.0),
    "training.learning_rate": rate(3e-4, 1e-2),
    "training.clip": rate(0.1, 2.0),
}
# Around the paper's H 120, K 16, A 4, C 32. Contents are narrower than the narrowest hidden state:
# a micro-state is a summary (the paper's d_h > d_m).
RANGES: Mapping[str, Ranges] = {
    "smoke": {
        **ALWAYS,
        "model.hidden": steps(24, 48, 8),
        "memory.cells": steps(4, 16, 4),
        "memory.address": choices(2, 4, 8),
        "memory.content": choices(8, 16),
    },
    "small": {
        **ALWAYS,
        "model.hidden": steps(80, 160, 20),
        "memory.cells": steps(8, 32, 4),
        "memory.address": choices(4, 8, 16),
        "memory.content": choices(16, 32, 64),
    },
    "paper": {
        **ALWAYS,
        "model.hidden": steps(80, 200, 20),
        "memory.cells": steps(8, 64, 4),
        "memory.address": choices(4, 8, 16),
        "memory.content": choices(16, 32, 64),
    },
}
# Layer normalisation is named for ptb and snli only; the table of these tasks names no RESET gates.
PAPER_SIZES: Mapping[str, Any] = {
    "model.hidden": 120,
    "model.layer_norm": False,
    "model.reset_gates": False,
    "memory.cells": 16,
    "memory.address": 4,
    "memory.content": 32,
    "training.learning_rate": 3e-3,
}
SMOKE_SIZES: Mapping[str, Any] = {**PAPER_SIZES, "model.hidden": 48, "memory.content": 16}
# What the tasks of `tardis_core` set differently for a model.
_MORE_CELLS = {"memory.cells": 32, "training.learning_rate": 1e-3}
_RIVALS = dict.fromkeys(("ntm", "dntm", "dntm-discrete"), _MORE_CELLS)
RECIPES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "smoke": {},
    "small": _RIVALS,
    "paper": _RIVALS,
}
# Table "NTM tasks". The paper's reward is the auxiliary one alone.
ROWS = (
    Row(TARDIS, "gumbel"),
    Row(TARDIS, REINFORCE, {"estimator.auxiliary": True, "estimator.auxiliary_share": 1.0}),
)


def search(
    trial: optuna.Trial,
    scale: str,
    estimators: Sequence[str],
    models: Sequence[str] = DEFAULT_MODELS,
) -> dict[str, Any]:
    """The settings of one trial."""
    ranges = at_scale(RANGES, scale)
    settings = ask_model(trial, estimators, models)
    model = settings["model"]
    settings |= ask_known(trial, ranges, model, "model.hidden", "model.layer_norm", "task.draws")
    settings |= ask_known(trial, ranges, model, "training.learning_rate", "training.clip")
    settings |= ask_known(trial, ranges, model, "memory.cells", "memory.address", "memory.content")
    settings |= ask_known(trial, ranges, model, "memory.address_scale", "memory.gain")
    settings |= ask_known(trial, ranges, model, "model.reset_gates")
    if settings.get("model.reset_gates"):
        settings |= ask_known(trial, ranges, model, "model.reset_bias")
    settings |= ask_own(trial, model)
    if settings["estimator"] == REINFORCE:
        settings |= ask_reinforce(trial, mixed=True)
    return settings
