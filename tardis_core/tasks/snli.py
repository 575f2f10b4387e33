"""Natural language inference: read a premise, then a hypothesis, and say how they relate.

    input    <pad> a  man  sleeps  .  <sep>  a  man  is  awake  .
    mask       -   x   x     x     x    x    x   x    x    x    x
    target                                                    contradiction

Padding stands in front and is masked, so all sequences of a batch end together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from tardis_core.data import snli
from tardis_core.data.dataset import Provenance
from tardis_core.errors import require
from tardis_core.models.network import Network
from tardis_core.settings import setting
from tardis_core.tasks.base import (
    TASKS,
    Batch,
    Metric,
    Signature,
    Split,
    Task,
    score,
)
from tardis_core.tasks.details import Detail, confusion
from tardis_core.tasks.sampling import EpochSampler, ragged_indices

EVALUATION_BATCH = 256


@dataclass(frozen=True)
class SnliConfig:
    """How much is measured."""

    evaluation_pairs: int = setting(
        0, "pairs of each split to evaluate; 0 evaluates the whole split"
    )

    def __post_init__(self) -> None:
        limit = self.evaluation_pairs
        require(limit >= 0, f"task.evaluation_pairs must not be negative: {limit}")


@TASKS.register("snli")
class Snli(Task):
    """Accuracy over three classes; always saying the most frequent one gives about 34 %."""

    Config = SnliConfig
    metric = Metric("accuracy", "% of pairs", "higher")
    meanings: ClassVar = {"nats": "nats per pair"}
    presets: ClassVar = {
        "smoke": {
            "task.evaluation_pairs": 500,
            "model.hidden": 48,
            "model.embedding": 24,
            "model.layer_norm": True,
            "model.reset_gates": False,  # the paper's table for SNLI names no "+ R"
            "model.recurrent_dropout": 0.05,
            "memory.cells": 8,
            "memory.content": 16,
            "training.updates": 100,
            "training.evaluate_every": 50,
        },
        "small": {
            "model.hidden": 128,
            "model.embedding": 96,
            "model.layer_norm": True,
            "model.reset_gates": False,
            "model.recurrent_dropout": 0.2,
            "model.dropout": 0.3,
            "memory.cells": 16,
            "memory.content": 32,
            "training.learning_rate": 1e-3,
            "training.decay": "linear",
            "training.decay_from": 0.3,
            "training.updates": 3000,
            "training.evaluate_every": 200,
            "training.patience": 8,
        },
        # DEVIATION(sec. SNLI): the paper names layer normalisation and dropout; the sizes are ours.
        "paper": {
            "model.hidden": 300,
            "model.embedding": 300,
            "model.layer_norm": True,
            "model.reset_gates": False,
            "model.recurrent_dropout": 0.2,
            "model.dropout": 0.2,
            "memory.cells": 20,
            "memory.address": 8,
            "memory.content": 64,
            "training.batch": 128,
            "training.learning_rate": 1e-3,
            "training.decay": "linear",
            "training.decay_from": 0.3,
            "training.updates": 60_000,
            "training.evaluate_every": 1000,
            "training.patience": 10,
        },
    }

    config: SnliConfig
    data: snli.PairCorpus

    def __init__(
        self, config: SnliConfig, data: snli.PairCorpus, batch_size: int, seed: int
    ) -> None:
        super().__init__(config, data, batch_size, seed)
        self.signature = Signature(
            inputs=len(data.words),
            symbols=True,
            outputs=len(snli.LABELS),
            bits=False,
            boundary=snli.SEP,
        )
        self._sampler = EpochSampler(_lengths(data.train), batch_size, self.rng)

    @classmethod
    def load(cls, config: SnliConfig, directory: str | None, source: str) -> snli.PairCorpus:
        return snli.load(directory, source)

    @property
    def vocabulary(self) -> list[str]:
        return list(self.data.words)

    @classmethod
    def provenance(cls, config: SnliConfig, data: snli.PairCorpus) -> Provenance:
        return data.provenance

    def train_batch(self, number: int) -> Batch:
        return make_batch(self.data.train, self._sampler.batch(number))

    def evaluate(self, network: Network, split: Split) -> dict[str, float]:
        result = score(network, self.signature, self._evaluation_batches(split))
        return {"accuracy": 100 * result.correct / result.steps, "nats": result.nats / result.steps}

    @torch.no_grad()
    def details(self, network: Network, split: Split) -> list[Detail]:
        """Which relation is taken for which."""
        device = next(network.parameters()).device
        truth, answers = [], []
        for batch in self._evaluation_batches(split):
            moved = batch.to(device)
            prediction, _ = network(moved.inputs, None, moved.mask_TB)
            answers.append(prediction.logits_TBO[-1].argmax(-1).cpu().numpy())
            truth.append(batch.targets[-1].numpy())
        return [confusion("relations", snli.LABELS, np.concatenate(truth), np.concatenate(answers))]

    def count(self, split: Split) -> int:
        return len(getattr(self.data, split))

    def _examples(self, split: Split, numbers: np.ndarray) -> Batch:
        return make_batch(getattr(self.data, split), numbers)

    def labels(self, batch: Batch, column: int) -> list[str]:
        """The words."""
        return [self.data.words[word] for word in batch.inputs[:, column].tolist()]

    def _evaluation_batches(self, split: Split) -> Iterator[Batch]:
        pairs: snli.Pairs = getattr(self.data, split)
        chosen = np.arange(len(pairs))[: self.config.evaluation_pairs or None]
        by_length = chosen[np.argsort(_lengths(pairs)[chosen], kind="stable")]
        for start in range(0, len(by_length), EVALUATION_BATCH):
            yield make_batch(pairs, by_length[start : start + EVALUATION_BATCH])


def _lengths(pairs: snli.Pairs) -> np.ndarray:
    return np.diff(pairs.premise_ends) + np.diff(pairs.hypothesis_ends) + 1


def make_batch(pairs: snli.Pairs, chosen: np.ndarray) -> Batch:
    """The chosen pairs side by side, ending together, the label asked for at the last step."""
    lengths = _lengths(pairs)[chosen]
    steps, count = int(lengths.max()), len(chosen)
    symbols_TB = np.full((steps, count), snli.PAD, np.int64)
    premise = np.diff(pairs.premise_ends)[chosen]
    first = steps - lengths  # the step at which each premise begins
    for flat, ends, begin in (
        (pairs.premise, pairs.premise_ends, first),
        (pairs.hypothesis, pairs.hypothesis_ends, first + premise + 1),
    ):
        places, rows = ragged_indices(ends[:-1][chosen], np.diff(ends)[chosen])
        within = places - ends[:-1][chosen][rows]
        symbols_TB[begin[rows] + within, rows] = flat[places]
    symbols_TB[first + premise, np.arange(count)] = snli.SEP
    targets_TB = np.zeros((steps, count), np.int64)
    targets_TB[-1] = pairs.labels[chosen]
    scored_TB = np.zeros((steps, count), bool)
    scored_TB[-1] = True
    mask_TB = np.arange(steps)[:, None] >= first
    return Batch(
        inputs=torch.from_numpy(symbols_TB),
        targets=torch.from_numpy(targets_TB),
        scored_TB=torch.from_numpy(scored_TB),
        mask_TB=torch.from_numpy(mask_TB),
    )
