"""The bounds of numeric settings: the last value on each side that is accepted and refused."""

import re

import pytest

from tardis_core.errors import UserError
from tardis_core.estimators.counterfactual import CounterfactualConfig
from tardis_core.estimators.gumbel_rao import GumbelRaoConfig
from tardis_core.estimators.policy import PolicyConfig
from tardis_core.estimators.reinmax import ReinMaxConfig
from tardis_core.estimators.rloo import RlooConfig
from tardis_core.estimators.soft import SoftConfig
from tardis_core.estimators.straight_through import StraightThroughConfig
from tardis_core.models.base import ModelConfig
from tardis_core.models.controller import LstmConfig
from tardis_core.models.tardis import CellsConfig, MemoryConfig
from tardis_core.training.schedule import TrainingConfig

AT_LEAST_1, AT_LEAST_0 = ([1], [0]), ([0], [-1])
NOT_NEGATIVE, ABOVE_0 = ([0.0], [-0.01]), ([0.001], [0.0])
RATE = ([0.0, 0.999], [-0.001, 1.0])  # of dropout
SHARE, SHARE_ABOVE_0 = ([0.0, 1.0], [-0.001, 1.001]), ([0.001, 1.0], [0.0, 1.001])
BOUNDS = {
    ModelConfig: {
        "hidden": AT_LEAST_1,
        "embedding": AT_LEAST_0,
        "head": AT_LEAST_0,
        "dropout": RATE,
    },
    LstmConfig: {"hidden": AT_LEAST_1, "recurrent_dropout": RATE},
    CellsConfig: {
        "cells": AT_LEAST_1,
        "address": AT_LEAST_1,
        "content": AT_LEAST_1,
        "address_density": SHARE_ABOVE_0,
        "address_scale": ABOVE_0,
    },
    MemoryConfig: {
        "cells": AT_LEAST_1,
        "attention": AT_LEAST_0,
        "gain": ABOVE_0,
        "vary_cells_from": SHARE,
    },
    PolicyConfig: {
        "auxiliary_share": SHARE,
        "auxiliary_until": SHARE,
        "gamma": SHARE,
        "rate": ABOVE_0,
        "entropy_until": SHARE_ABOVE_0,
        "weight": NOT_NEGATIVE,
        "entropy": NOT_NEGATIVE,
    },
    CounterfactualConfig: {"gamma": SHARE, "window": AT_LEAST_1, "likeliest": AT_LEAST_0},
    RlooConfig: {"gamma": SHARE, "copies": ([2], [1])},
    GumbelRaoConfig: {"temperature": ABOVE_0, "samples": AT_LEAST_1},
    ReinMaxConfig: {"temperature": ABOVE_0},
    SoftConfig: {"temperature": ABOVE_0, "final_temperature": ABOVE_0},
    StraightThroughConfig: {"temperature": ABOVE_0, "forward_temperature": ABOVE_0},
    TrainingConfig: {
        "updates": AT_LEAST_1,
        "batch": AT_LEAST_1,
        "accumulate": AT_LEAST_1,
        "evaluate_every": AT_LEAST_1,
        "warmup": AT_LEAST_0,
        "patience": AT_LEAST_0,
        "clip": NOT_NEGATIVE,
        "weight_decay": NOT_NEGATIVE,
        "final_rate": NOT_NEGATIVE,
        "learning_rate": ([1e-9, 9.999], [0.0, 10.0]),
        "decay_from": RATE,
    },
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in BOUNDS.items() for name in names]
)
def test_a_setting_is_refused_just_outside_of_its_bounds(kind, name):
    accepted, refused = BOUNDS[kind][name]
    for value in accepted:
        assert getattr(kind(**{name: value}), name) == value
    for value in refused:
        with pytest.raises(UserError, match=rf"\.{name} must .*{re.escape(str(value))}$"):
            kind(**{name: value})


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_a_learning_rate_may_stay_but_not_rise(decay):
    assert TrainingConfig(learning_rate=0.5, final_rate=0.5, decay=decay).final_rate == 0.5
    with pytest.raises(UserError, match=r"final_rate must be at most .*=0\.5, not 0\.6$"):
        TrainingConfig(learning_rate=0.5, final_rate=0.6, decay=decay)
