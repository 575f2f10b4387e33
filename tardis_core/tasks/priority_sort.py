"""Priority sort (Graves et al. 2014): return bit vectors in the order of their priorities.

One example of five vectors, of which the four with the highest priorities are asked for:

    step        0     1     2     3     4    5   6  7  8  9
    bits 0-7    a     b     c     d     e                       random vectors of 8 bits
    priority   0.1  -0.7   0.9   0.4  -0.2                      uniform in [-1, 1)
    end                                      #
    target                                       c  d  a  e     scored at steps 6 to 9
"""

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import numpy as np

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
PRIORITY, END = BITS, BITS + 1  # input channels beside the bits
ASKED = 0.8  # of the vectors: 16 of 20
RECIPE = {"training.clip": 0.5, "training.evaluate_every": 250}


@dataclass(frozen=True)
class PrioritySortConfig(GeneratedConfig):
    """The numbers of vectors."""

    shortest: int = setting(2, "fewest vectors per sequence")
    longest: int = setting(20, "most vectors per sequence; the metric is measured at this length")


@TASKS.register("priority-sort")
class PrioritySort(BitsTask):
    """20 vectors of which 16 are asked for, as in the NTM paper; success is below 0.02."""

    Config = PrioritySortConfig
    name = "priority-sort"
    markers: ClassVar = {END: "end"}
    signature = Signature(inputs=BITS + 2, symbols=False, outputs=BITS, bits=True, boundary=END)
    presets: ClassVar = {
        "smoke": {**SMOKE, "task.longest": 5},
        "small": {**PAPER_SIZES, **RATE, **RECIPE, "task.longest": 10, "training.updates": 10_000},
        "paper": {
            **PAPER_SIZES,
            **RATE,
            **RECIPE,
            "task.shortest": 20,  # the NTM paper has no shorter ones
            "training.updates": 30_000,
        },
    }
    recipes: ClassVar = SOFT_MEMORIES

    def make(self, length: int, count: int, rng: np.random.Generator) -> Batch:
        bits = rng.integers(0, 2, (length, count, BITS)).astype(np.float32)
        priority = rng.uniform(-1, 1, (length, count)).astype(np.float32)
        asked = ceil(ASKED * length)
        order = np.argsort(-priority, axis=0, kind="stable")[:asked]
        steps = length + 1 + asked
        inputs = np.zeros((steps, count, BITS + 2), np.float32)
        inputs[:length, :, :BITS] = bits
        inputs[:length, :, PRIORITY] = priority
        inputs[length, :, END] = 1
        targets = np.zeros((steps, count, BITS), np.float32)
        targets[length + 1 :] = np.take_along_axis(bits, order[:, :, None], axis=0)
        return as_batch(inputs, targets, np.arange(steps) > length)
