"""Repeat copy (Graves et al. 2014): repeat a sequence of bit vectors a given number of times.

One example of length 2 with three repeats, one column per step:

    step      0   1  2   3   4  5  6  7  8  9  10
    bits 0-7      a  b                             a b: random vectors of 8 bits
    start     #
    repeats              3                         in units: see below
    target                   a  b  a  b  a  b      scored at steps 4 to 10,
    done                                       #   with the ninth bit

The number of repeats is shown on a channel of its own, divided by the greatest number.

DEVIATION(sec. 4.2 of Graves et al.): they normalise it to mean 0 and variance 1.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tardis_core.errors import require
from tardis_core.settings import setting
from tardis_core.tasks.base import TASKS, Batch, Signature
from tardis_core.tasks.bit_sequences import BitsTask
from tardis_core.tasks.generated import (
    PAPER_SIZES,
    RATE,
    SMOKE,
    SOFT_MEMORIES,
    GeneratedConfig,
    as_batch,
)

BITS = 8
START, REPEATS = BITS, BITS + 1  # input channels beside the bits
DONE = BITS  # the output bit that ends the answer
RECIPE = {"training.clip": 0.5, "training.evaluate_every": 250}


@dataclass(frozen=True)
class RepeatCopyConfig(GeneratedConfig):
    """Lengths, and how often they are repeated."""

    longest: int = setting(
        10, "length of the longest sequences; the metric is measured at this length"
    )
    repeats: int = setting(10, "greatest number of repeats; the metric is measured with it")
    test_sequences: int = setting(2048, "number of test sequences")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.repeats >= 1, f"task.repeats must be at least 1, not {self.repeats}")


@TASKS.register("repeat-copy")
class RepeatCopy(BitsTask):
    """Lengths and repeats 1 to 10, as in the NTM paper and ARMIN's; success is below 0.02."""

    Config = RepeatCopyConfig
    config: RepeatCopyConfig
    name = "repeat-copy"
    markers: ClassVar = {START: "start", REPEATS: "repeats"}
    signature = Signature(
        inputs=BITS + 2, symbols=False, outputs=BITS + 1, bits=True, boundary=REPEATS
    )
    presets: ClassVar = {
        "smoke": {**SMOKE, "task.longest": 3, "task.repeats": 3},
        "small": {
            **PAPER_SIZES,
            **RATE,
            **RECIPE,
            "task.longest": 5,
            "task.repeats": 5,
            "training.updates": 10_000,
        },
        "paper": {**PAPER_SIZES, **RATE, **RECIPE, "training.updates": 30_000},
    }
    recipes: ClassVar = SOFT_MEMORIES

    def train_batch(self, number: int) -> Batch:
        rng = self.rng(number)
        length = self.draw_length(number, rng)
        repeats = int(rng.integers(1, self.config.repeats + 1))
        return self.repeat(length, repeats, self.batch_size, rng)

    def make(self, length: int, count: int, rng: np.random.Generator) -> Batch:
        return self.repeat(length, self.config.repeats, count, rng)

    def repeat(self, length: int, repeats: int, count: int, rng: np.random.Generator) -> Batch:
        """`count` sequences of one length and one number of repeats."""
        bits = rng.integers(0, 2, (length, count, BITS)).astype(np.float32)
        shown = length + 2
        steps = shown + repeats * length + 1
        inputs = np.zeros((steps, count, BITS + 2), np.float32)
        inputs[0, :, START] = 1
        inputs[1 : length + 1, :, :BITS] = bits
        inputs[length + 1, :, REPEATS] = repeats / self.config.repeats
        targets = np.zeros((steps, count, BITS + 1), np.float32)
        targets[shown:-1, :, :BITS] = np.tile(bits, (repeats, 1, 1))
        targets[-1, :, DONE] = 1
        return as_batch(inputs, targets, np.arange(steps) >= shown)
