"""Lengths of the paths from a step back to an earlier one, with and without wormholes.

The paper's section on path lengths looks at untrained models, which choose cells at random, and
asks two questions. Here they are made precise.

1. *How long is the path that lies in a memory cell?* (figure "expected path length in the memory
   cells".) Reading cell j and writing cell i at step t makes the path of i one longer than that
   of j, `len(i) = len(j) + 1`; all other cells keep theirs. While the memory fills, t <= K, every
   length is 0, as the paper's proof assumes. TARDIS writes where it read, so the length of a cell
   counts its visits. In both TARDIS and uMANN the mean over the cells grows by 1/K a step, hence
   `E len = (T - K) / K = T/K - 1` at step T. (The paper writes a sum over t where it means the
   value at the end.)

2. *How short is the shortest path from step t1 to step t0?* (figure "shortest path from timestep
   50 to 5".) The graph has two kinds of edges, each of length one: the recurrence, t -> t - 1, and
   the wormhole, t -> the step that wrote what t reads. A read of an empty cell leads nowhere. The
   length *outside* the wormholes is the number of recurrent edges on the shortest path. Several
   paths may be shortest: then the one with the most recurrent edges counts, so that a wormhole
   is said to be used only where it shortens the path; a read of the step before does not.

Letters: T steps, N sequences side by side, K cells. Steps are counted from 0.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tardis_core.errors import UserError, choices, require


class Choices(NamedTuple):
    """Which cell was read and which was written at every step; a step reads before it writes."""

    read_TN: np.ndarray
    written_TN: np.ndarray
    cells: int


class Paths(NamedTuple):
    """Shortest paths back to one start, from every step on or after it; -1 before it."""

    length_TN: np.ndarray  # edges
    outside_TN: np.ndarray  # of these, recurrent ones


def _where_it_was_read(read_TN: np.ndarray, cells: int, rng: np.random.Generator) -> np.ndarray:
    """TARDIS: the cells in order while the memory fills, then the cell just read."""
    steps_T1 = np.arange(len(read_TN))[:, None]
    return np.where(steps_T1 < cells, steps_T1, read_TN)


def _anywhere(read_TN: np.ndarray, cells: int, rng: np.random.Generator) -> np.ndarray:
    """uMANN: any cell, like the reads."""
    return rng.integers(cells, size=read_TN.shape)


def _in_turn(read_TN: np.ndarray, cells: int, rng: np.random.Generator) -> np.ndarray:
    """urMANN: one cell after the other, and round again.

    The paper defines it for K >= T only. With random reads the writes of the trained urMANN
    (`models/uniform.py`), where it was read, would make it TARDIS.
    """
    return np.broadcast_to(np.arange(len(read_TN))[:, None] % cells, read_TN.shape)


WRITERS: dict[str, Callable[[np.ndarray, int, np.random.Generator], np.ndarray]] = {
    "tardis": _where_it_was_read,
    "umann": _anywhere,
    "urmann": _in_turn,
}


def simulate(kind: str, steps: int, cells: int, count: int, rng: np.random.Generator) -> Choices:
    """`count` sequences of an untrained model: it reads any of the K cells, full or empty.

    Args:
        kind: tardis, umann or urmann; they differ in where they write.
    """
    if kind not in WRITERS:
        raise UserError(f"unknown kind of memory {kind!r}; choose one of: {choices(WRITERS)}")
    for name, value in (("steps", steps), ("cells", cells), ("simulations", count)):
        require(value >= 1, f"a simulation takes at least 1 of {name}, not {value}")
    read_TN = rng.integers(cells, size=(steps, count))
    return Choices(read_TN, WRITERS[kind](read_TN, cells, rng), cells)


def cell_lengths(choices: Choices) -> np.ndarray:
    """Question 1: the length of the path in each cell after the last step.

    Returns:
        length_NK
    """
    steps, count = choices.read_TN.shape
    everyone = np.arange(count)
    length_NK = np.zeros((count, choices.cells), np.int64)
    for t in range(choices.cells, steps):
        length_NK[everyone, choices.written_TN[t]] = length_NK[everyone, choices.read_TN[t]] + 1
    return length_NK


def expected_cell_length(steps: int, cells: int) -> float:
    """Its expectation in TARDIS and uMANN with uniform choices: T/K - 1, and 0 until it is full."""
    return max(0.0, steps / cells - 1)


def shortest_paths(source_TN: np.ndarray, start: int) -> Paths:
    """Question 2, for every step at once: exact, by dynamic programming over the steps.

    Args:
        source_TN: the step that wrote what is read, negative where there is none.
    """
    steps, count = source_TN.shape
    require(0 <= start < steps, f"a path starts at a step from 0 to {steps - 1}, not at {start}")
    everyone = np.arange(count)
    edge = steps + 1  # more than any number of wormholes: they only decide between equal lengths
    cost_TN = np.full((steps, count), -1)
    cost_TN[start] = 0
    for t in range(start + 1, steps):
        source_N = source_TN[t]
        along_N = cost_TN[t - 1] + edge
        through_N = cost_TN[np.maximum(source_N, start), everyone] + edge + 1
        cost_TN[t] = np.where(source_N >= start, np.minimum(along_N, through_N), along_N)
    length_TN, wormholes_TN = np.divmod(cost_TN[start:], edge)
    before = np.full((start, count), -1)
    return Paths(
        np.concatenate([before, length_TN]), np.concatenate([before, length_TN - wormholes_TN])
    )


def mean_by_distance(source_TN: np.ndarray) -> Paths:
    """Question 2, averaged over all pairs of steps that lie equally far apart.

    Returns:
        means at index d of the steps t and t - d, as arrays of one axis
    """
    steps = len(source_TN)
    length, outside = np.zeros(steps), np.zeros(steps)
    for start in range(steps):
        paths = shortest_paths(source_TN, start)
        length[: steps - start] += paths.length_TN[start:].mean(1)
        outside[: steps - start] += paths.outside_TN[start:].mean(1)
    pairs = np.arange(steps, 0, -1)  # T - d pairs lie d apart
    return Paths(length / pairs, outside / pairs)
