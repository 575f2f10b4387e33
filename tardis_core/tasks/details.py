"""Results beyond one metric, as plain values: for plots and tables."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Curve:
    """One quantity against another."""

    name: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    seen: float | None = None  # up to here training went


@dataclass(frozen=True)
class Confusion:
    """How often each class was taken for each."""

    name: str
    classes: tuple[str, ...]
    counts_CC: np.ndarray  # one row per true class, one column per answer

    @property
    def accuracy_C(self) -> np.ndarray:
        """The share of each class that was recognised, in %; not a number where there was none."""
        totals = self.counts_CC.sum(1)
        with np.errstate(invalid="ignore"):
            return 100 * np.diag(self.counts_CC) / totals


Detail = Curve | Confusion


def confusion(
    name: str, classes: Sequence[str], truth: np.ndarray, answers: np.ndarray
) -> Confusion:
    """Count pairs of a true class and an answer."""
    size = len(classes)
    counts = np.bincount(truth.ravel() * size + answers.ravel(), minlength=size**2)
    return Confusion(name, tuple(classes), counts.reshape(size, size))
