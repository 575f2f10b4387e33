"""Shared by copy and recall: random bit sequences, evaluated at the greatest training length."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
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
from tardis_core.tasks.base import (
    Batch,
    Metric,
    Score,
    Signature,
    Split,
    Task,
    score,
)
from tardis_core.tasks.details import Curve, Detail

EVALUATION_BATCH = 256
LENGTHS = (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4, 5)  # of `details`, times the greatest length
COST = "binary cross-entropy (nats per bit)"
BEYOND = 1.5  # times the greatest length: where the places of an answer are distinguished
# What the paper says of both tasks (section "NTM Tasks"), under the names of our settings.
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
# The NTM and its kin write a cell a vector, which needs more cells than there are vectors, and they
# learn at lower rates.
MORE_CELLS = {"memory.cells": 32, "training.learning_rate": 1e-3}
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
    grow_until: int = setting(0, "batches in which the maximum length grows to task.longest")
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
        require(self.grow_until >= 0, f"task.grow_until must be at least 0, not {self.grow_until}")
        for name in ("draws", "valid_sequences", "test_sequences"):
            value = getattr(self, name)
            require(value >= 1, f"task.{name} must be at least 1, not {value}")


class GeneratedTask(Task):
    """All sequences of a batch have one length, drawn anew for each batch."""

    metric = Metric("bce", "nats per bit at the greatest training length", "lower")
    name: ClassVar[str]
    markers: ClassVar[Mapping[int, str]]  # input channels beside the bits, and what they mean
    config: GeneratedConfig

    @abstractmethod
    def make(self, length: int, count: int, rng: np.random.Generator) -> Batch:
        """`count` sequences of one length."""

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
        lengths = rng.integers(self.config.shortest, self._longest(number) + 1, self.config.draws)
        return self.make(int(lengths.max()), self.batch_size, rng)

    def _longest(self, number: int) -> int:
        """The greatest length that batch `number` may have."""
        config = self.config
        if number >= config.grow_until:
            return config.longest
        growth = (config.longest - config.shortest) * number / config.grow_until
        return config.shortest + ceil(growth)

    def evaluate(self, network: Network, split: Split) -> dict[str, float]:
        return {"bce": self.cost(network, split, self.config.longest)}

    def cost(self, network: Network, split: Split, length: int) -> float:
        """Nats per bit at one length, which need not be one seen in training."""
        result = score(network, self.signature, self._evaluation_batches(split, length))
        return nats_per_bit(result, self.signature)

    @torch.no_grad()
    def cost_by_place(self, network: Network, split: Split, length: int) -> tuple[float, ...]:
        """Nats per bit at each step of the answer."""
        device = next(network.parameters()).device
        costs = []
        for batch in self._evaluation_batches(split, length):
            batch = batch.to(device)
            prediction, _ = network(batch.inputs, asked_TB=batch.scored_TB)
            ll_TB = self.signature.log_likelihood(prediction.logits_TBO, batch)
            costs.append(-ll_TB[batch.scored_TB[:, 0]] / self.signature.outputs)
        return tuple(torch.cat(costs, 1).mean(1).tolist())

    def details(self, network: Network, split: Split) -> list[Detail]:
        """The cost at lengths up to five times the greatest of training, and of each place."""
        longest = self.config.longest
        beyond = round(BEYOND * longest)
        by_place = self.cost_by_place(network, split, beyond)
        lengths = sorted({max(self.config.shortest, round(longest * part)) for part in LENGTHS})
        return [
            Curve(
                name="cost_by_length",
                x_label="length",
                y_label=COST,
                x=tuple(lengths),
                y=tuple(self.cost(network, split, length) for length in lengths),
                seen=longest,
            ),
            Curve(
                name="cost_by_place",
                x_label=f"place in the answer at length {beyond}",
                y_label=COST,
                x=tuple(range(1, len(by_place) + 1)),
                y=by_place,
            ),
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

    def labels(self, batch: Batch, column: int) -> list[str]:
        """The name of a marker, or the bits that are shown or asked for."""
        return [
            self._label(*step)
            for step in zip(
                batch.inputs[:, column].numpy(),
                batch.targets[:, column].numpy(),
                batch.scored_TB[:, column].tolist(),
                strict=True,
            )
        ]

    def _label(self, input_D: np.ndarray, target_O: np.ndarray, scored: bool) -> str:
        for channel, marker in self.markers.items():
            if input_D[channel]:
                return marker
        bits = target_O if scored else input_D[: len(target_O)]
        return "".join(str(int(bit)) for bit in bits)

    def _evaluation_batches(self, split: Split, length: int) -> Iterator[Batch]:
        count = self.count(split)
        rng = np.random.default_rng([SPLIT_SEEDS[split], length])
        for start in range(0, count, EVALUATION_BATCH):
            yield self.make(length, min(EVALUATION_BATCH, count - start), rng)


def nats_per_bit(result: Score, signature: Signature) -> float:
    """Binary cross-entropy over the scored bits."""
    return result.nats / (result.steps * signature.outputs)


def as_batch(inputs_TBD: np.ndarray, targets_TBO: np.ndarray, scored_T: np.ndarray) -> Batch:
    """Arrays as a batch; all sequences are scored at the same steps."""
    scored_TB = np.broadcast_to(scored_T[:, None], inputs_TBD.shape[:2])
    return Batch(
        torch.from_numpy(inputs_TBD),
        torch.from_numpy(targets_TBO),
        torch.from_numpy(scored_TB.copy()),
    )
