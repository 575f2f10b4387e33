"""What a search knows of each model: the settings it lacks, its own, and what to try first.

A task's file ranges over the settings of TARDIS; another model is asked for those of them that it
has, and then for its own. A model that is not named here is searched like the LSTM.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

NO_RESET = ("model.reset_",)
NO_MEMORY = (*NO_RESET, "memory.")
NO_ADDRESSING = ("memory.gain",)  # nothing to learn about where to read
FREE_ADDRESSES = (*NO_RESET, *NO_ADDRESSING, "memory.address_")  # none, or learned ones
NO_GATES = (*NO_MEMORY, "model.layer_norm", "model.recurrent_dropout")


@dataclass(frozen=True)
class ModelSpace:
    """How the search over a model differs from that over TARDIS."""

    lacks: tuple[str, ...] = NO_MEMORY  # beginnings of names of settings
    own: Mapping[str, BaseDistribution] = field(default_factory=dict)
    guess: Mapping[str, Any] = field(default_factory=dict)  # the defaults of `tardis_core`
    discrete: bool = False  # whether it needs an estimator


MODELS: Mapping[str, ModelSpace] = {
    "tardis": ModelSpace(lacks=(), discrete=True),
    "lstm": ModelSpace(),
    "ntm": ModelSpace(lacks=(*FREE_ADDRESSES, "memory.address")),
    "dntm": ModelSpace(lacks=FREE_ADDRESSES),
    "dntm-discrete": ModelSpace(lacks=FREE_ADDRESSES, discrete=True),
    "umann": ModelSpace(lacks=NO_ADDRESSING),
    "urmann": ModelSpace(lacks=NO_ADDRESSING),
    "zoneout": ModelSpace(
        own={
            "model.zoneout_cell": FloatDistribution(0.0, 0.6, step=0.1),
            "model.zoneout_hidden": FloatDistribution(0.0, 0.2, step=0.05),
        },
        guess={"model.zoneout_cell": 0.5, "model.zoneout_hidden": 0.05},
    ),
    "bnlstm": ModelSpace(
        lacks=(*NO_MEMORY, "model.layer_norm"),
        own={"model.gain": FloatDistribution(0.05, 1.0, log=True)},
        guess={"model.gain": 0.1},
    ),
    "hyperlstm": ModelSpace(
        own={
            "model.hyper_hidden": CategoricalDistribution((16, 32, 64, 128)),
            "model.hyper_embedding": CategoricalDistribution((4, 8, 16)),
        },
        guess={
            "model.layer_norm": True,
            "model.hyper_hidden": 64,
            "model.hyper_embedding": 8,
        },
    ),
    "hmlstm": ModelSpace(
        own={
            "model.layers": IntDistribution(2, 3),
            "model.final_slope": FloatDistribution(1.0, 5.0, step=1.0),
        },
        guess={"model.layers": 3, "model.final_slope": 5.0},
    ),
    "attention": ModelSpace(),
    "attention-two-way": ModelSpace(),
    "clockwork": ModelSpace(
        lacks=NO_GATES,
        own={"model.groups": IntDistribution(2, 8)},
        guess={"model.groups": 5},
    ),
}
LIKE_LSTM = ModelSpace()


def of(model: str) -> ModelSpace:
    """What is known of a model."""
    return MODELS.get(model, LIKE_LSTM)


def has(model: str, setting: str) -> bool:
    """Whether a model has a setting that the file of a task ranges over."""
    return not setting.startswith(of(model).lacks)
