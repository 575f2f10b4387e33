"""Which examples make up batch number n: random epochs, sequences of like length together."""

from collections.abc import Callable

import numpy as np

POOL = 20  # batches whose examples are sorted by length together: little padding, much chance


def epoch_batches(lengths: np.ndarray, batch: int, rng: np.random.Generator) -> np.ndarray:
    """One epoch in random order; the examples that do not fill a batch wait for another epoch.

    Returns:
        indices of examples, one row per batch
    """
    batch = min(batch, len(lengths))
    order = rng.permutation(len(lengths))
    pools = np.split(order, range(POOL * batch, len(order), POOL * batch))
    order = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
    batches = len(order) // batch
    return rng.permutation(order[: batches * batch].reshape(batches, batch))


class EpochSampler:
    """Batch number n of training as indices; it remembers one epoch, and can make any again."""

    def __init__(
        self, lengths: np.ndarray, batch: int, rng: Callable[[int], np.random.Generator]
    ) -> None:
        self._lengths, self._batch, self._rng = lengths, batch, rng
        self.per_epoch = len(lengths) // min(batch, len(lengths))
        self._epoch, self._plan = -1, np.empty((0, 0), np.int64)

    def batch(self, number: int) -> np.ndarray:
        """Indices of the examples of batch `number`."""
        epoch, place = divmod(number, self.per_epoch)
        if epoch != self._epoch:
            self._plan = epoch_batches(self._lengths, self._batch, self._rng(epoch))
            self._epoch = epoch
        return self._plan[place]


def ragged_indices(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the elements of ragged rows stand in a flat array, and which row each belongs to.

    For starts [5, 0] and lengths [2, 1]: ([5, 6, 0], [0, 0, 1]).
    """
    rows = np.repeat(np.arange(len(lengths)), lengths)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return starts[rows] + within, rows
