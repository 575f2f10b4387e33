"""Selective copying (Jing et al. 2019; Gu & Dao 2023): copy the tokens that stand among blanks.

One example of three tokens among 8 steps, one column per step, . for the blank:

    step      0  1  2  3  4  5  6  7   8  9 10
    symbol    .  a  .  .  b  .  c  .   #  #  #      a b c: random tokens, # asks for the next
    target                             a  b  c      scored at steps 8 to 10

The steps of the tokens are random, so a fixed delay does not help: blanks have to be ignored. The
length is the number of tokens.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tardis_core.errors import require
from tardis_core.settings import setting
from tardis_core.tasks.base import TASKS, Batch, Signature
from tardis_core.tasks.generated import (
    PAPER_SIZES,
    RATE,
    SMOKE,
    SOFT_MEMORIES,
    GeneratedConfig,
    as_batch,
)
from tardis_core.tasks.symbol_sequences import SymbolsTask

VOCABULARY = 16  # tokens, the blank and the marker
TOKENS = VOCABULARY - 2
BLANK, ASK = TOKENS, TOKENS + 1
RECIPE = {"training.clip": 0.5, "training.evaluate_every": 250}


@dataclass(frozen=True)
class SelectiveCopyConfig(GeneratedConfig):
    """Lengths are numbers of tokens."""

    longest: int = setting(16, "most tokens per sequence; the metric is measured at this length")
    steps: int = setting(256, "steps in which the tokens are shown, but at least one per token")
    test_sequences: int = setting(1024, "number of test sequences")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.steps >= 1, f"task.steps must be at least 1, not {self.steps}")


@TASKS.register("selective-copy")
class SelectiveCopy(SymbolsTask):
    """16 tokens among 256 steps at scale paper; a guess is right in 7.1 %, success is 99 %."""

    Config = SelectiveCopyConfig
    config: SelectiveCopyConfig
    name = "selective-copy"
    symbol_names = (*(f"token {n}" for n in range(TOKENS)), "blank", "ask")
    signature = Signature(inputs=VOCABULARY, symbols=True, outputs=TOKENS, bits=False)
    presets: ClassVar = {
        "smoke": {**SMOKE, "task.longest": 3, "task.steps": 10},
        "small": {
            **PAPER_SIZES,
            **RATE,
            **RECIPE,
            "task.longest": 8,
            "task.steps": 32,
            "training.updates": 10_000,
        },
        "paper": {**PAPER_SIZES, **RATE, **RECIPE, "training.updates": 30_000},
    }
    recipes: ClassVar = SOFT_MEMORIES

    def make(self, length: int, count: int, rng: np.random.Generator) -> Batch:
        shown = max(self.config.steps, length)
        tokens = rng.integers(0, TOKENS, (length, count))
        places = rng.permuted(np.tile(np.arange(shown), (count, 1)), axis=1)[:, :length]
        inputs = np.full((shown + length, count), BLANK, np.int64)
        inputs[np.sort(places, axis=1).T, np.arange(count)] = tokens
        inputs[shown:] = ASK
        targets = np.zeros_like(inputs)
        targets[shown:] = tokens
        return as_batch(inputs, targets, np.arange(len(inputs)) >= shown)
