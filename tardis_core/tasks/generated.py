"""Shared by the tasks whose sequences are generated: lengths, splits, measurements by length.

A subclass says what a sequence is (`make`) and what is measured of it (`at_length`); that of bits
is in `bit_sequences`, that of symbols in `symbol_sequences`.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar

import numpy as np
import torch

from tardis_core import __version__
from tardis_core.data.dataset import Provenance
from tardis_core.errors import require
from tardis_core.models.network import Network
from tardis_core.settings import setting
from tardis_core.tasks.base import Batch, Score, Split, Task, score
from tardis_core.tasks.details import Curve, Detail

EVALUATION_BATCH = 256
LENGTHS = (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4, 6)  # of `details`, times the greatest length
# What the paper says of copy and recall (section "NTM Tasks"), under the names of our settings.
PAPER_SIZES = {
    "model.hidden": 120,
    "model.reset_gates": False,  # its table for these tasks names no "+ R"
    "memory.cells": 16,
    "memory.address": 4,
    "memory.content": 32,
    "training.learning_rate": 3e-3,
}
SMOKE = {
    **PAPER_SIZES,
    "model.hidden": 48,
    "memory.content": 16,
    "task.valid_sequences": 256,
    "task.test_sequences": 512,
    "training.updates": 200,
    "training.evaluate_every": 50,
}
# DEVIATION(sec. NTM Tasks): at a constant rate runs get worse again midway, so it decays.
RATE = {
    "training.batch": 64,
    "training.warmup": 200,
    "training.decay": "linear",
    "training.decay_from": 0.5,
    "training.final_rate": 1e-5,
}
# The NTM and its kin write one cell per vector, which needs more cells than there are vectors, and
# they learn at lower rates.
LOWER_RATE = {"training.learning_rate": 1e-3}
MORE_CELLS = {"memory.cells": 32, **LOWER_RATE}
SOFT_MEMORIES = {
    "ntm": MORE_CELLS,
    "dntm": MORE_CELLS,
    "dntm-discrete": MORE_CELLS,
    "dnc": MORE_CELLS,
    "sam": {**MORE_CELLS, "memory.cells": 64},  # it empties its oldest cell at every step
}
# Evaluation sequences are the same for every seed of a run, and never those of training.
SPLIT_SEEDS: dict[str, int] = {"valid": 1_000_003, "test": 2_000_003}


@dataclass(frozen=True)
class GeneratedConfig:
    """Lengths, and how many sequences are measured."""

    shortest: int = setting(1, "length of the shortest sequences")
    longest: int = setting(
        20, "length of the longest sequences; the metric is measured at this length"
    )
    grow_share: float = setting(
        0.0, "share of the updates in which the maximum length grows to task.longest"
    )
    draws: int = setting(
        1, "a length is the maximum of this many uniform draws; more draws, longer sequences"
    )
    valid_sequences: int = setting(1024, "number of validation sequences")
    test_sequences: int = setting(4096, "number of test sequences")

    def __post_init__(self) -> None:
        require(
            1 <= self.shortest <= self.longest,
            "task.shortest must be at least 1 and at most task.longest, "
            f"not {self.shortest} with {self.longest}",
        )
        require(self.grow_share >= 0, f"task.grow_share must be at least 0, not {self.grow_share}")
        for name in ("draws", "valid_sequences", "test_sequences"):
            value = getattr(self, name)
            require(value >= 1, f"task.{name} must be at least 1, not {value}")


class GeneratedTask(Task):
    """All sequences of a batch have one length, drawn for each batch."""

    name: ClassVar[str]
    most: ClassVar[int | None] = None  # the greatest length there can be
    measured: ClassVar[str]  # the quantity of `at_length`, in one word
    measured_label: ClassVar[str]  # the same with its unit, for plots
    config: GeneratedConfig

    @abstractmethod
    def make(self, length: int, count: int, rng: np.random.Generator) -> Batch:
        """`count` sequences of one length."""

    @abstractmethod
    def at_length(self, network: Network, split: Split, length: int) -> float:
        """The metric at one length, which may differ from those in training."""

    @classmethod
    def provenance(cls, config: Any, data: Any) -> Provenance:
        return Provenance(
            name=cls.name,
            real=True,
            complete=True,
            sha256="",
            origin=f"sequences made on the fly by tardis_core {__version__}",
        )

    def train_batch(self, number: int) -> Batch:
        rng = self.rng(number)
        return self.make(self.draw_length(number, rng), self.batch_size, rng)

    def draw_length(self, number: int, rng: np.random.Generator) -> int:
        """The length of batch `number` of training."""
        lengths = rng.integers(self.config.shortest, self._longest(number) + 1, self.config.draws)
        return int(lengths.max())

    def _longest(self, number: int) -> int:
        """The greatest length that batch `number` may have."""
        config, growing = self.config, round(self.config.grow_share * self.updates)
        if number >= growing:
            return config.longest
        growth = (config.longest - config.shortest) * number / growing
        return config.shortest + ceil(growth)

    def evaluate(self, network: Network, split: Split) -> dict[str, float]:
        return {self.metric.name: self.at_length(network, split, self.config.longest)}

    def score_at(self, network: Network, split: Split, length: int) -> Score:
        """Sums over all sequences of a split at one length."""
        return score(network, self.signature, self.evaluation_batches(split, length))

    def details(self, network: Network, split: Split) -> list[Detail]:
        """The metric at lengths up to six times the greatest of training."""
        longest = self.config.longest
        every = {max(self.config.shortest, round(longest * part)) for part in LENGTHS}
        lengths = sorted(length for length in every if self.most is None or length <= self.most)
        return [
            Curve(
                name=f"{self.measured}_by_length",
                x_label="length",
                y_label=self.measured_label,
                x=tuple(lengths),
                y=tuple(self.at_length(network, split, length) for length in lengths),
                seen=longest,
            )
        ]

    def count(self, split: Split) -> int:
        return int(getattr(self.config, f"{split}_sequences"))

    def _examples(self, split: Split, numbers: np.ndarray) -> Batch:
        """Sequences of the greatest training length."""
        longest = self.config.longest
        batches = [
            self.make(longest, 1, np.random.default_rng([SPLIT_SEEDS[split], longest, number]))
            for number in numbers
        ]
        inputs, targets, scored_TB = zip(*(batch[:3] for batch in batches), strict=True)
        return Batch(torch.cat(inputs, 1), torch.cat(targets, 1), torch.cat(scored_TB, 1))

    def evaluation_batches(self, split: Split, length: int) -> Iterator[Batch]:
        """The sequences of a split at one length: the same for every seed of a run."""
        count = self.count(split)
        rng = np.random.default_rng([SPLIT_SEEDS[split], length])
        for start in range(0, count, EVALUATION_BATCH):
            yield self.make(length, min(EVALUATION_BATCH, count - start), rng)


def as_batch(inputs: np.ndarray, targets: np.ndarray, scored: np.ndarray) -> Batch:
    """Arrays as a batch; `scored` is of shape TB, or T where it is the same for all sequences."""
    if scored.ndim == 1:
        scored = np.broadcast_to(scored[:, None], inputs.shape[:2])
    return Batch(
        torch.from_numpy(inputs), torch.from_numpy(targets), torch.from_numpy(scored.copy())
    )
