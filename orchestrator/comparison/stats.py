"""How sure are we? Intervals, tests and fair curves from a few seeds."""

from itertools import product

import numpy as np
from numpy.typing import ArrayLike

RESAMPLES = 10_000
EXACT = 14  # pairs up to which all 2^n sign flips are tried


def bootstrap_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Of the mean, by the percentiles of means of resampled values; one value has no interval."""
    sample = np.asarray(values, float)
    if len(sample) < 2:
        return float("nan"), float("nan")
    rng = np.random.default_rng(0)
    means = rng.choice(sample, (RESAMPLES, len(sample))).mean(1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def permutation_test(differences: ArrayLike) -> float:
    """The chance of a mean difference as great as this, either way, if pairs did not differ.

    Under that hypothesis each pair might as well be swapped, which flips the sign of its
    difference: n pairs cannot give less than 2 / 2^n.
    """
    pairs = np.asarray(differences, float)
    if not len(pairs):
        return float("nan")
    if len(pairs) <= EXACT:
        signs = np.array(list(product((1.0, -1.0), repeat=len(pairs))))
    else:
        rng = np.random.default_rng(0)
        signs = np.vstack([np.ones(len(pairs)), rng.choice((1.0, -1.0), (RESAMPLES, len(pairs)))])
    means = np.abs(signs @ pairs) / len(pairs)
    observed = abs(pairs.mean())
    return float((means >= observed * (1 - 1e-12)).mean())


def expected_best(values: ArrayLike, better: str) -> np.ndarray:
    """The expected best of n draws from these results, for n = 1 to their number.

    So that a search of 10 trials is compared with one of 40 fairly: at the same n (Dodge et al.
    2019, "Show Your Work"). The best of n independent draws is at most v with chance F(v)^n.
    """
    sample = np.sort(np.asarray(values, float))
    if better == "lower":
        return -expected_best(-sample, "higher")
    count = len(sample)
    draws = np.arange(1, count + 1)[:, None]
    reached = (np.arange(count + 1) / count) ** draws
    return np.diff(reached, axis=1) @ sample
