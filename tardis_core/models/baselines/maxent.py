"""Maximum-entropy n-grams with hashed features: a linear model of text, trained by SGD.

Mikolov et al. 2011, "Strategies for Training Large Scale Neural Network Language Models", section
on hash-based maximum entropy, and 2012, "Subword Language Modeling with Neural Networks", whose
"ME n-gram" the paper quotes. A feature is a context, the n - 1 symbols before, for n = 1 to N:

    P(w | h) = softmax_w( sum_n theta[hash(the last n - 1 symbols of h), w] )

Contexts share the rows of theta whose hash they share; frequent ones dominate their row. Training
is one pass after the other over the text in random order, in small batches, with the gradient

    d log P / d theta[row, v] = [v = w] - P(v | h)      for each of the N rows of h

DEVIATION(SGD): the rate of a row is that of AdaGrad (Duchi et al. 2011), rate / sqrt(the sum over
its updates of the mean square of its gradient): the row of the empty context is in every sum and
the row of a long context in few. The rate falls linearly to zero over the whole training.

Letters: B batch, N order, V symbols, R rows.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tardis_core.errors import require
from tardis_core.settings import setting

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio, odd
HIGH_BITS = np.uint64(32)  # of a product the high bits depend on all digits
BATCH = 128
MEASURED = 65_536  # symbols whose probabilities are computed at once
EPSILON = 1e-8


@dataclass(frozen=True)
class MaxEntConfig:
    """The size of the model and its training."""

    order: int = setting(10, "length of the longest n-grams (N)")
    rows: int = setting(2**21, "number of rows of weights that contexts are hashed to (R)")
    epochs: int = setting(2, "passes over the text")
    rate: float = setting(0.1, "learning rate at the beginning; it falls linearly to 0")

    def __post_init__(self) -> None:
        for name in ("order", "rows", "epochs"):
            value = getattr(self, name)
            require(value >= 1, f"{name} must be at least 1, not {value}")
        require(self.rate > 0, f"rate must be positive, not {self.rate}")


class MaxEnt:
    """P(w | the last order - 1 symbols)."""

    def __init__(
        self,
        text: np.ndarray,
        symbols: int,
        config: MaxEntConfig,
        before: int = 0,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Train.

        Args:
            text: symbol ids.
            symbols: how many symbols there are.
            before: the symbol that is taken to stand before a text, as often as needed.
            seed: of the order in which symbols are visited.
        """
        require(len(text) > 0, "a text to train on must have at least one symbol")
        self.symbols, self.config, self.before = symbols, config, before
        self.theta_RV = torch.zeros(config.rows, symbols, dtype=dtype)
        self._squares_R = torch.full((config.rows,), EPSILON, dtype=dtype)
        self._train(np.asarray(text), np.random.default_rng(seed))

    def __len__(self) -> int:
        """The number of weights that have been trained."""
        return self.symbols * int((self._squares_R > EPSILON).sum())

    def nats(self, text: np.ndarray) -> np.ndarray:
        """-ln P of every symbol of a text, each from those before it."""
        starts = range(0, len(text), MEASURED)
        parts = [np.arange(start, min(start + MEASURED, len(text))) for start in starts]
        padded = self._pad(text)
        return np.concatenate([self._nats_at(padded, places) for places in parts])

    def _nats_at(self, padded: np.ndarray, places: np.ndarray) -> np.ndarray:
        logits_BV = self._logits(self._rows(padded, places))
        targets_B = torch.from_numpy(self._symbols_at(padded, places))
        return F.cross_entropy(logits_BV, targets_B, reduction="none").numpy().astype(np.float64)

    def _train(self, text: np.ndarray, rng: np.random.Generator) -> None:
        padded, total = self._pad(text), len(text) * self.config.epochs
        done = 0
        for _ in range(self.config.epochs):
            order = rng.permutation(len(text))
            for start in range(0, len(text), MEASURED):
                places = order[start : start + MEASURED]
                rows_BN = self._rows(padded, places)
                targets_B = torch.from_numpy(self._symbols_at(padded, places))
                for rows, targets in zip(rows_BN.split(BATCH), targets_B.split(BATCH), strict=True):
                    self._update(rows, targets, self.config.rate * (1 - done / total))
                    done += len(targets)

    def _update(self, rows_BN: Tensor, targets_B: Tensor, rate: float) -> None:
        """A step up the gradient of the log-likelihood."""
        gradient_BV = -torch.softmax(self._logits(rows_BN), dim=1)
        gradient_BV[torch.arange(len(targets_B)), targets_B] += 1
        squares_BN = gradient_BV.square().mean(1, keepdim=True).expand_as(rows_BN)
        self._squares_R.index_add_(0, rows_BN.flatten(), squares_BN.flatten())
        rates_BN = rate * self._squares_R[rows_BN].rsqrt()
        steps_BNV = rates_BN.unsqueeze(2) * gradient_BV.unsqueeze(1)
        self.theta_RV.index_add_(0, rows_BN.flatten(), steps_BNV.flatten(0, 1))

    def _logits(self, rows_BN: Tensor) -> Tensor:
        return F.embedding_bag(rows_BN, self.theta_RV, mode="sum")

    def _pad(self, text: np.ndarray) -> np.ndarray:
        return np.concatenate([np.full(self.config.order - 1, self.before), text]).astype(np.uint64)

    def _symbols_at(self, padded: np.ndarray, places: np.ndarray) -> np.ndarray:
        return padded[places + self.config.order - 1].astype(np.int64)

    def _rows(self, padded: np.ndarray, places: np.ndarray) -> Tensor:
        """The row of each context of the symbols at these places, from the empty one: BN."""
        keys, columns = np.zeros(len(places), np.uint64), []
        for n in range(self.config.order):
            columns.append((keys >> HIGH_BITS) % np.uint64(self.config.rows))
            older = padded[places + self.config.order - 2 - n] if n + 1 < self.config.order else 0
            keys = (keys + np.uint64(1) + older) * MULTIPLIER
        return torch.from_numpy(np.stack(columns, 1).astype(np.int64))
