"""The settings of a training run, and the learning rate of every update."""

import math
from dataclasses import dataclass
from typing import Literal

from tardis_core.errors import require
from tardis_core.settings import setting

# Said whenever a training gets more updates than it began with.
FOLLOW_LENGTH = (
    "everything that is a share of training.updates (the decay of the learning rate, growing "
    "lengths, entropy, temperatures) follows the new number"
)


@dataclass(frozen=True)
class TrainingConfig:
    """The settings of a training run that do not depend on its model or task."""

    updates: int = setting(1000, "number of updates")
    batch: int = setting(64, "sequences per update")
    accumulate: int = setting(
        1,
        "microbatches per batch, run one after the other: less memory, and the same gradient of "
        "the task's loss but for noise; score functions take baselines and means per microbatch",
    )
    learning_rate: float = setting(3e-3, "learning rate of Adam")
    warmup: int = setting(0, "updates in which the learning rate rises linearly from zero")
    decay: Literal["constant", "linear", "cosine"] = setting(
        "constant", "shape of the learning rate's decay"
    )
    decay_from: float = setting(0.5, "share of the updates after which the decay begins")
    final_rate: float = setting(
        1e-5,
        "learning rate at the last update, if it decays; warmup and decay_from must leave at least "
        "one update for the decay",
    )
    clip: float = setting(1.0, "maximum norm of the gradient; 0 does not clip")
    weight_decay: float = setting(0.0, "L2 penalty on the weights")
    evaluate_every: int = setting(
        200, "updates between validations; each is followed by a checkpoint"
    )
    patience: int = setting(
        0,
        "validations without a new best after which training stops, counted from "
        "memory.vary_cells_from on if that is below 1; 0 never stops early",
    )
    precision: Literal["float32", "tf32", "bfloat16"] = setting(
        "float32",
        "precision of matrix products; tf32 (GPUs) and bfloat16 (GPUs, CPUs with AVX512_BF16) are "
        "faster and less exact",
    )

    def __post_init__(self) -> None:
        for name in ("updates", "batch", "accumulate", "evaluate_every"):
            value = getattr(self, name)
            require(value >= 1, f"training.{name} must be at least 1, not {value}")
        for name in ("warmup", "clip", "weight_decay", "patience", "final_rate"):
            value = getattr(self, name)
            require(value >= 0, f"training.{name} must not be negative: {value}")
        rate = self.learning_rate
        require(0 < rate < 10, f"training.learning_rate must be above 0 and below 10, not {rate}")
        start = self.decay_from
        require(0 <= start < 1, f"training.decay_from must be at least 0 and below 1, not {start}")
        require(
            self.decay == "constant" or self.final_rate <= rate,
            f"training.final_rate must be at most training.learning_rate={rate}, "
            f"not {self.final_rate}",
        )


def learning_rate(update: int, config: TrainingConfig) -> float:
    """The rate of update number `update`, counted from 0: warm-up, plateau, decay."""
    if update < config.warmup:
        return config.learning_rate * (update + 1) / config.warmup
    start, last = config.decay_from * config.updates, config.updates - 1
    if config.decay == "constant" or update <= start:
        return config.learning_rate
    done = 1.0 if update >= last else (update - start) / (last - start)
    left = 1 - done if config.decay == "linear" else (1 + math.cos(math.pi * done)) / 2
    return config.final_rate + (config.learning_rate - config.final_rate) * left
