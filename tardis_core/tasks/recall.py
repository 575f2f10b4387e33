"""Associative recall (Graves et al. 2014): given an item, say which item came after it.

An item is three vectors of 6 bits. One example of two items, one column per step:

    step       0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15
    bits 0-5      a  a' a"    b  b' b"    a  a' a"              the query is item a
    item       #           #
    query                              #           #
    target                                            b  b' b"  scored at steps 13 to 15
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

BITS = 6
VECTORS = 3  # an item
ITEM, QUERY = BITS, BITS + 1  # input channels beside the bits
# Not in the paper; chosen by experiment.
RECIPE = {
    "task.draws": 2,
    "task.valid_sequences": 4096,  # the rare hard query weighs: few sequences flatter
    "task.test_sequences": 16384,
    "memory.address_scale": 0.3,  # quiet addresses, so that reads are chosen by content
    "memory.gain": 2.0,
    "training.clip": 1.0,
    "training.evaluate_every": 250,
}
# DEVIATION(sec. NTM Tasks): with six items from the start, reads stay random. The memory-only head
# helps with the first, short sequences alone: later one read at the query serves all answers.
REINFORCE = {
    "task.grow_share": 0.6,
    "estimator.attached": True,
    "estimator.gamma": 0.9,
    "estimator.auxiliary_share": 0.0,
    "estimator.auxiliary_until": 0.4,
    "estimator.entropy": 0.02,
    "estimator.entropy_until": 0.5,
}
# DEVIATION(sec. NTM Tasks): the policy finds a match of contents only if its addressing begins with
# one and if every cell is tried at the query and the answer: otherwise it learns where to read and
# not what. The weight is about twice that with which policy and task descend one cost.
MATCHING = {
    "task.draws": 3,
    "task.grow_share": 0.0,
    "memory.match": True,
    "memory.gain": 6.0,
    "memory.address_scale": 0.1,
    "estimator.window": 8,
    "estimator.attached": True,
    "estimator.gamma": 1.0,
    "estimator.weight": 4.0,
    "estimator.auxiliary_share": 0.0,  # that head sees no more than one read: the model, all
    "estimator.auxiliary_until": 0.0,
    "estimator.entropy": 0.006,
    "estimator.entropy_until": 0.7,
    "training.decay_from": 0.25,  # the match is found early; what follows wants lower rates
}


@dataclass(frozen=True)
class RecallConfig(GeneratedConfig):
    """Lengths are numbers of items."""

    shortest: int = setting(2, "fewest items per sequence")
    longest: int = setting(6, "most items per sequence; the metric is measured at this length")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.shortest >= 2,
            f"task.shortest must be at least 2 (an item and the next), not {self.shortest}",
        )


@TASKS.register("recall")
class Recall(BitsTask):
    """2 to 6 items in the paper's setting; success is below 0.02 at 6 items."""

    Config = RecallConfig
    name = "recall"
    markers: ClassVar = {ITEM: "item", QUERY: "query"}
    signature = Signature(inputs=BITS + 2, symbols=False, outputs=BITS, bits=True, boundary=QUERY)
    presets: ClassVar = {
        "smoke": {**SMOKE, "task.longest": 3},
        "small": {**PAPER_SIZES, **RATE, **RECIPE, "training.updates": 10_000},
        "paper": {**PAPER_SIZES, **RATE, **RECIPE, "training.updates": 20_000},
    }
    recipes: ClassVar = {
        "reinforce": REINFORCE,
        "tardis:counterfactual": MATCHING,
        "rloo": REINFORCE,
        **SOFT_MEMORIES,
    }

    def make(self, length: int, count: int, rng: np.random.Generator) -> Batch:
        items = rng.integers(0, 2, (length, VECTORS, count, BITS)).astype(np.float32)
        asked = rng.integers(0, length - 1, count)
        everyone = np.arange(count)
        query = items[asked, :, everyone].transpose(1, 0, 2)
        answer = items[asked + 1, :, everyone].transpose(1, 0, 2)

        shown = length * (VECTORS + 1)
        steps = shown + 2 * VECTORS + 2
        inputs = np.zeros((steps, count, BITS + 2), np.float32)
        inputs[0 : shown : VECTORS + 1, :, ITEM] = 1
        by_item = inputs[:shown].reshape(length, VECTORS + 1, count, BITS + 2)
        by_item[:, 1:, :, :BITS] = items
        inputs[shown, :, QUERY] = 1
        inputs[shown + 1 : shown + 1 + VECTORS, :, :BITS] = query
        inputs[shown + 1 + VECTORS, :, QUERY] = 1
        targets = np.zeros((steps, count, BITS), np.float32)
        targets[-VECTORS:] = answer
        return as_batch(inputs, targets, np.arange(steps) >= steps - VECTORS)
