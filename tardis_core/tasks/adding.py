"""The adding problem (Hochreiter & Schmidhuber 1997): the sum of the two marked numbers.

One example of 8 steps, one column per step:

    step       0    1    2    3    4    5    6    7
    number    0.3  0.9  0.1  0.6  0.2  0.8  0.5  0.7     uniform in [0, 1)
    marker         #                   #                 one in each half
    target                                       1.7     scored at the last step

The length is the number of steps.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tardis_core.errors import require
from tardis_core.models.network import Network
from tardis_core.settings import setting
from tardis_core.tasks.base import TASKS, Batch, Metric, Signature, Split
from tardis_core.tasks.generated import (
    PAPER_SIZES,
    RATE,
    SMOKE,
    SOFT_MEMORIES,
    GeneratedConfig,
    GeneratedTask,
    as_batch,
)

NUMBER, MARKER = 0, 1  # input channels
SOLVED = 0.01
RECIPE = {"training.clip": 1.0, "training.evaluate_every": 250}


@dataclass(frozen=True)
class AddingConfig(GeneratedConfig):
    """Lengths are numbers of steps."""

    shortest: int = setting(2, "fewest steps of a sequence")
    longest: int = setting(200, "most steps of a sequence; the metric is measured at this length")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.shortest >= 2,
            f"task.shortest must be at least 2 (one number in each half), not {self.shortest}",
        )


@TASKS.register("adding")
class Adding(GeneratedTask):
    """Up to 200 steps at scale paper; always answering 1 gives 0.167, success is below 0.01."""

    Config = AddingConfig
    metric = Metric("mse", "squared error at the greatest training length", "lower", SOLVED)
    name = "adding"
    measured = "error"
    measured_label = "mean squared error"
    signature = Signature(inputs=2, symbols=False, outputs=1, bits=False, numbers=True)
    presets: ClassVar = {
        "smoke": {**SMOKE, "task.longest": 10},
        "small": {**PAPER_SIZES, **RATE, **RECIPE, "task.longest": 50, "training.updates": 10_000},
        "paper": {**PAPER_SIZES, **RATE, **RECIPE, "training.updates": 20_000},
    }
    recipes: ClassVar = SOFT_MEMORIES

    def make(self, length: int, count: int, rng: np.random.Generator) -> Batch:
        numbers = rng.uniform(0, 1, (length, count)).astype(np.float32)
        half, everyone = length // 2, np.arange(count)
        first, second = rng.integers(0, half, count), rng.integers(half, length, count)
        inputs = np.zeros((length, count, 2), np.float32)
        inputs[..., NUMBER] = numbers
        inputs[first, everyone, MARKER] = 1
        inputs[second, everyone, MARKER] = 1
        targets = np.zeros((length, count, 1), np.float32)
        targets[-1, :, 0] = numbers[first, everyone] + numbers[second, everyone]
        return as_batch(inputs, targets, np.arange(length) == length - 1)

    def at_length(self, network: Network, split: Split, length: int) -> float:
        """The mean squared error."""
        result = self.score_at(network, split, length)
        return result.nats / result.steps  # the log-likelihood of a number: see `Signature`

    def labels(self, batch: Batch, column: int) -> list[str]:
        """The numbers, with a star where they are marked."""
        return [
            f"{number:.2f}{'*' if marker else ''}"
            for number, marker in batch.inputs[:, column].tolist()
        ]
