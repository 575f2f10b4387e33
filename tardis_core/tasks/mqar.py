"""Multi-query associative recall (Arora et al. 2023): pairs first, then the key of each again.

One example of three pairs in 12 steps, one column per step, . for the blank:

    step      0  1  2  3  4  5   6  7  8  9 10 11
    symbol    k  v  l  w  m  x   .  m  k  .  .  l      keys k l m, values v w x
    target                          x  v        w      scored where a key is shown again

The pairs of a sequence have different keys; every key is asked for once, at a random step. The
length is the number of pairs; a sequence has `task.steps` steps, or four per pair if that is more.

DEVIATION: "Zoology" (arXiv 2312.04927) asks for most keys soon after the pairs, by a power law, and
has a vocabulary of 8,192; here all steps are equally likely, with 128 keys and 64 values.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tardis_core.errors import require
from tardis_core.settings import setting
from tardis_core.tasks.base import TASKS, Batch, Signature
from tardis_core.tasks.generated import (
    LOWER_RATE,
    PAPER_SIZES,
    RATE,
    SMOKE,
    SOFT_MEMORIES,
    GeneratedConfig,
    as_batch,
)
from tardis_core.tasks.symbol_sequences import SymbolsTask

KEYS, VALUES = 128, 64
BLANK = 0
FIRST_KEY, FIRST_VALUE = 1, 1 + KEYS
STEPS_PER_PAIR = 4  # at least: two for the pair, and as many to ask
RECIPE = {
    "model.embedding": 64,
    "memory.cells": 32,
    "training.clip": 1.0,
    "training.evaluate_every": 250,
}


@dataclass(frozen=True)
class MqarConfig(GeneratedConfig):
    """Lengths are numbers of pairs."""

    shortest: int = setting(4, "fewest pairs per sequence")
    longest: int = setting(64, "most pairs per sequence; the metric is measured at this length")
    steps: int = setting(256, "steps per sequence, but at least four per pair")
    test_sequences: int = setting(1024, "number of test sequences")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.longest <= KEYS,
            f"task.longest must be at most {KEYS}, the number of keys, not {self.longest}",
        )
        require(self.steps >= 1, f"task.steps must be at least 1, not {self.steps}")


@TASKS.register("mqar")
class Mqar(SymbolsTask):
    """4 to 64 pairs in 256 steps at scale paper; a guess is right in 1.6 %, success is 99 %."""

    Config = MqarConfig
    config: MqarConfig
    most = KEYS
    name = "mqar"
    symbol_names = (
        "blank",
        *(f"key {n}" for n in range(KEYS)),
        *(f"value {n}" for n in range(VALUES)),
    )
    signature = Signature(inputs=1 + KEYS + VALUES, symbols=True, outputs=VALUES, bits=False)
    presets: ClassVar = {
        "smoke": {
            **SMOKE,
            "model.embedding": 32,
            "task.shortest": 1,
            "task.longest": 3,
            "task.steps": 12,
        },
        "small": {
            **PAPER_SIZES,
            **RATE,
            **RECIPE,
            "task.longest": 8,
            "task.steps": 64,
            "training.updates": 10_000,
        },
        "paper": {
            **PAPER_SIZES,
            **RATE,
            **RECIPE,
            "memory.cells": 128,  # the pairs alone are 128 steps
            "training.updates": 30_000,
        },
    }
    recipes: ClassVar = {
        **dict.fromkeys(SOFT_MEMORIES, LOWER_RATE),
        "sam": {**LOWER_RATE, "memory.cells": 128},  # it empties its oldest cell at every step
    }

    def make(self, length: int, count: int, rng: np.random.Generator) -> Batch:
        steps = max(self.config.steps, STEPS_PER_PAIR * length)
        keys = rng.permuted(np.tile(np.arange(KEYS), (count, 1)), axis=1)[:, :length].T
        values = rng.integers(0, VALUES, (length, count))
        inputs = np.full((steps, count), BLANK, np.int64)
        inputs[0 : 2 * length : 2] = FIRST_KEY + keys
        inputs[1 : 2 * length : 2] = FIRST_VALUE + values
        free = np.tile(np.arange(2 * length, steps), (count, 1))
        asked = rng.permuted(free, axis=1)[:, :length].T
        everyone = np.arange(count)
        inputs[asked, everyone] = FIRST_KEY + keys
        targets = np.zeros((steps, count), np.int64)
        targets[asked, everyone] = values
        scored = np.zeros((steps, count), bool)
        scored[asked, everyone] = True
        return as_batch(inputs, targets, scored)
