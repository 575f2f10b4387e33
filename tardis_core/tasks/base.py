"""The interface of a task: batches by number, a loss, a metric, and settings for each scale.

Batch number n is a function of the settings, the seed and n alone, so the position in the data is
one integer.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tardis_core.data.dataset import Provenance
from tardis_core.errors import UserError
from tardis_core.models.network import Network
from tardis_core.registry import Registry
from tardis_core.tasks.details import Detail

Split = Literal["valid", "test"]


class Batch(NamedTuple):
    """Sequences side by side, time first."""

    inputs: Tensor  # symbols_TB (int64) or vectors_TBD
    targets: Tensor  # classes_TB (int64), bits_TBO or numbers_TBO
    scored_TB: Tensor  # True where the target counts
    mask_TB: Tensor | None = None  # False where a sequence has no step; None: all have
    continues: bool = False  # the sequences continue those of the batch before

    def map(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        """A function of all the tensors."""
        return self._replace(
            inputs=function(self.inputs),
            targets=function(self.targets),
            scored_TB=function(self.scored_TB),
            mask_TB=None if self.mask_TB is None else function(self.mask_TB),
        )

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return self.map(lambda part: part.to(device))

    def steps(self, here: slice) -> "Batch":
        """A stretch of all sequences."""
        return self.map(lambda part: part[here])

    def sequences(self, here: slice) -> "Batch":
        """Some of the sequences."""
        return self.map(lambda part: part[:, here])

    def copied(self, copies: int) -> "Batch":
        """This many copies of every sequence, side by side."""
        if copies == 1:
            return self
        return self.map(lambda part: part.repeat_interleave(copies, dim=1))


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a network for the task."""

    inputs: int  # number of symbols, or width of the input vectors
    symbols: bool  # whether inputs are symbols
    outputs: int  # number of classes, of bits, or of numbers
    bits: bool  # whether outputs are independent bits
    # The symbol, or the channel of a vector, that ends the first part of a sequence of two parts.
    boundary: int | None = None
    numbers: bool = False  # whether outputs are numbers, predicted with their squared error

    def log_likelihood(self, logits_TBO: Tensor, batch: Batch) -> Tensor:
        """Nats per step of the target under the prediction; zero where nothing is scored.

        Of a number it is minus the squared error: a normal distribution with the variance 1/2,
        without its constant.

        Returns:
            ll_TB
        """
        logits_TBO = logits_TBO.to(torch.promote_types(logits_TBO.dtype, torch.float32))
        if self.numbers:
            ll_TB = -(logits_TBO - batch.targets.to(logits_TBO.dtype)).square().sum(-1)
        elif self.bits:
            ll_TB = -F.binary_cross_entropy_with_logits(
                logits_TBO, batch.targets.to(logits_TBO.dtype), reduction="none"
            ).sum(-1)
        else:
            ll_TB = -F.cross_entropy(
                logits_TBO.flatten(0, 1), batch.targets.flatten(), reduction="none"
            ).view_as(batch.targets)
        return ll_TB * batch.scored_TB

    def loss(self, ll_TB: Tensor, batch: Batch) -> Tensor:
        """Nats per scored step, or per bit or number where outputs are these; zero if none is."""
        per_step = self.outputs if self.bits or self.numbers else 1
        return -ll_TB.sum() / (batch.scored_TB.sum().clamp_min(1) * per_step)


@dataclass(frozen=True)
class Metric:
    """The metric of a task: on validation for choices, on test for reports."""

    name: str
    unit: str
    better: Literal["lower", "higher"]
    solved: float | None = None  # a run whose value is better counts as solved, where this is said

    def solves(self, value: float) -> bool:
        """Whether this value counts as solved."""
        if self.solved is None:
            return False
        return value < self.solved if self.better == "lower" else value > self.solved


class Task(ABC):
    """The interface; a task is made by `Task(config, data, batch_size, seed)`."""

    Config: ClassVar[type]
    metric: ClassVar[Metric]
    # Settings by scale as {"section.key": value}; on top of them those by model, by estimator, and
    # by both as "model:estimator"; what was found at one scale alone as "model@small" and so on.
    presets: ClassVar[Mapping[str, Mapping[str, Any]]]
    recipes: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    # What the other values of `evaluate` mean.
    meanings: ClassVar[Mapping[str, str]] = {}

    signature: Signature
    updates: int = 0  # of the training, for a task whose batches change with its progress

    def __init__(self, config: Any, data: Any, batch_size: int, seed: int) -> None:
        self.config, self.data, self.batch_size, self.seed = config, data, batch_size, seed

    @classmethod
    def load(cls, config: Any, directory: str | None, source: str) -> Any:
        """The data of the task, as NumPy arrays; None where batches are generated."""
        return None

    @property
    def vocabulary(self) -> list[str]:
        """The meaning of each input symbol; empty where inputs are vectors."""
        return []

    @classmethod
    @abstractmethod
    def provenance(cls, config: Any, data: Any) -> Provenance:
        """The data that results are measured on."""

    @abstractmethod
    def train_batch(self, number: int) -> Batch:
        """Batch `number` of training, counted from 0 without end."""

    @abstractmethod
    def evaluate(self, network: Network, split: Split) -> dict[str, float]:
        """The metric by its name, and other values by name."""

    def details(self, network: Network, split: Split) -> list[Detail]:
        """Curves and confusion matrices beyond the metric; none by default."""
        return []

    @abstractmethod
    def count(self, split: Split) -> int:
        """The number of examples of a split."""

    def examples(self, split: Split, numbers: Sequence[int]) -> Batch:
        """The chosen sequences of a split side by side, each from its beginning, to look at."""
        count = self.count(split)
        for number in numbers:
            if not 0 <= number < count:
                raise UserError(f"an example is a number from 0 to {count - 1}, not {number}")
        return self._examples(split, np.asarray(numbers, np.int64))

    @abstractmethod
    def _examples(self, split: Split, numbers: np.ndarray) -> Batch:
        """`examples`, which there are."""

    def labels(self, batch: Batch, column: int) -> list[str]:
        """The label of each step of one sequence in a plot: here the number of the step."""
        return [str(step) for step in range(len(batch.inputs))]

    def rng(self, *key: int) -> np.random.Generator:
        """A random generator of its own for this seed and key."""
        return np.random.default_rng([self.seed, *key])


class Score(NamedTuple):
    """Sums over the scored steps of an evaluation."""

    nats: float
    memory_nats: float | None
    steps: int
    correct: int


@torch.no_grad()
def score(network: Network, signature: Signature, batches: Iterable[Batch]) -> Score:
    """Run the network over batches as they come, with state carried where they say so."""
    device = next(network.parameters()).device
    state, nats, memory_nats, steps, correct = None, 0.0, 0.0, 0, 0
    has_memory_head = network.memory_head is not None
    for batch in batches:
        batch = batch.to(device)
        prediction, state = network(
            batch.inputs,
            state if batch.continues else None,
            batch.mask_TB,
            asked_TB=batch.scored_TB,
        )
        nats -= float(signature.log_likelihood(prediction.logits_TBO, batch).sum())
        if prediction.memory_logits_TBO is not None:
            ll_TB = signature.log_likelihood(prediction.memory_logits_TBO, batch)
            memory_nats -= float(ll_TB.sum())
        steps += int(batch.scored_TB.sum())
        if not (signature.bits or signature.numbers):
            hits_TB = prediction.logits_TBO.argmax(-1) == batch.targets
            correct += int((hits_TB & batch.scored_TB).sum())
    return Score(nats, memory_nats if has_memory_head else None, steps, correct)


TASKS: Registry[type[Task]] = Registry("task", "tardis_core.tasks")
