"""Ranges: short names for distributions, how a trial is asked, and the ranges tasks share."""

from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

Ranges = Mapping[str, BaseDistribution]


def choices(*values: Any) -> CategoricalDistribution:
    """One of several values without a useful order or with uneven steps."""
    return CategoricalDistribution(values)


def steps(low: int, high: int, step: int = 1) -> IntDistribution:
    """A whole number between `low` and `high`, both included."""
    return IntDistribution(low, high, step=step)


def rate(low: float, high: float) -> FloatDistribution:
    """A number whose order of magnitude matters, searched by its logarithm."""
    return FloatDistribution(low, high, log=True)


def share(high: float, step: float, low: float = 0.0) -> FloatDistribution:
    """A number in even steps, by default from 0 for what may be off, such as dropout."""
    return FloatDistribution(low, high, step=step)


SWITCH = choices(True, False)

# The value of a read shows several steps later: gamma 0.8 looks 5 steps ahead, 0.99 a hundred.
# For the weight and the entropy bonus the order of magnitude matters; without a bonus reads become
# deterministic at once, above 0.3 they stay uniform. A baseline always helps.
POLICY: Ranges = {
    "estimator.auxiliary": SWITCH,
    "estimator.gamma": FloatDistribution(0.8, 0.99),
    "estimator.baseline": choices("batch", "input", "running"),
    "estimator.weight": rate(0.01, 1.0),
    "estimator.entropy": rate(0.02, 0.3),
    "estimator.copies": choices(2, 4),  # time grows with them
    "estimator.window": choices(4, 8, 16),
    "estimator.likeliest": choices(0, 2, 4),  # 0: every cell, the most time
}

# A low temperature spreads the gradient over few cells, a high one over many. Reads drawn at a
# forward temperature above 1 would be more random than their own probabilities.
STRAIGHT_THROUGH: Ranges = {
    "estimator.learned": SWITCH,
    "estimator.temperature": rate(0.1, 3.0),
    "estimator.forward_temperature": rate(0.3, 1.0),
    "estimator.samples": choices(2, 8, 32),
    "estimator.function": choices("softmax", "entmax"),
    "estimator.final_temperature": rate(0.02, 1.0),
}

ESTIMATOR: Ranges = {**POLICY, **STRAIGHT_THROUGH}

# The memory by scale. Contents are smaller than the smallest hidden state of any task, because a
# micro-state is a summary (d_h > d_m in the paper).
MEMORY: Mapping[str, Ranges] = {
    "smoke": {
        "memory.cells": steps(4, 32, 4),
        "memory.address": choices(2, 4, 8),
        "memory.content": choices(8, 16),
    },
    "small": {
        "memory.cells": steps(8, 32, 4),
        "memory.address": choices(4, 8, 16),
        "memory.content": choices(16, 32, 64),
    },
    "paper": {
        "memory.cells": steps(8, 64, 4),
        "memory.address": choices(4, 8, 16),
        "memory.content": choices(32, 64, 128),
    },
}

# Settings that only one model has.
MODEL_RANGES: Mapping[str, Ranges] = {
    "zoneout": {
        "model.zoneout_cell": share(0.6, 0.1),
        "model.zoneout_hidden": share(0.2, 0.05),
    },
    "bnlstm": {"model.gain": rate(0.05, 1.0)},
    "hyperlstm": {
        "model.hyper_hidden": choices(16, 32, 64, 128),
        "model.hyper_embedding": choices(4, 8, 16),
    },
    "hmlstm": {
        "model.layers": steps(2, 3),
        "model.final_slope": share(5.0, 1.0, low=1.0),
    },
    "clockwork": {"model.groups": steps(2, 8)},
    "mrnn": {"model.factors": choices(0, 32, 64, 128)},
    "rhn": {"model.depth": steps(2, 10), "model.transform_bias": share(-1.0, 1.0, low=-4.0)},
    "lstmn": {"model.span": steps(8, 64, 8), "model.attention": choices(16, 32, 64)},
    "stack-rnn": {"memory.seen": steps(1, 3)},
    "dntm-discrete": {"memory.curriculum": choices(0, 8, 24, 96)},
    "dnc": {"memory.heads": steps(1, 4)},
    "sam": {"memory.nearest": choices(2, 4)},  # at most as many as the smallest memory has cells
}


def ask(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> Any:
    """Suggest one setting from its range."""
    match distribution:
        case CategoricalDistribution():
            return trial.suggest_categorical(name, distribution.choices)
        case IntDistribution(low=low, high=high, step=step, log=log):
            return trial.suggest_int(name, low, high, step=step, log=log)
        case FloatDistribution(low=low, high=high, step=step, log=log):
            return trial.suggest_float(name, low, high, step=step, log=log)
    raise TypeError(f"{name} must have a distribution of Optuna, not {distribution!r}")
