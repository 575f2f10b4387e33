"""How often do 95 % intervals of the mean cover it? `python -m benchmarks.tools.coverage`.

Draws samples of as few values as there are seeds, from normal and from skewed distributions, and
prints for each interval the share of samples whose interval holds the true mean. An honest
interval has about 95 %.
"""

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from orchestrator.comparison.stats import mean_interval

COUNTS = (3, 4, 5, 6, 8, 10, 15, 20)
RESAMPLES = 1000
Intervals = tuple[np.ndarray, np.ndarray]  # low and high, one per sample


class Distribution(NamedTuple):
    """Where samples come from."""

    name: str
    draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
    mean: float


DISTRIBUTIONS = (
    Distribution("normal", lambda rng, shape: rng.normal(size=shape), 0.0),
    Distribution("gamma, skewness 1", lambda rng, shape: rng.gamma(4, size=shape), 4.0),
    Distribution(
        "log-normal, skewness 1.8", lambda rng, shape: rng.lognormal(0, 0.5, shape), np.exp(0.125)
    ),
    Distribution("exponential, skewness 2", lambda rng, shape: rng.exponential(size=shape), 1.0),
    Distribution(
        "two clusters, 1 in 5 fails",
        lambda rng, shape: rng.normal(0, 0.05, shape) + (rng.random(shape) < 0.2),
        0.2,
    ),
)


def percentile(samples: np.ndarray) -> Intervals:
    """Percentiles of bootstrapped means."""
    return _bootstrap(samples, "percentile")


def bca(samples: np.ndarray) -> Intervals:
    """Bootstrap, bias-corrected and accelerated."""
    return _bootstrap(samples, "BCa")


def _bootstrap(samples: np.ndarray, method: str) -> Intervals:
    result = stats.bootstrap(
        (samples,),
        np.mean,
        axis=1,
        method=method,
        n_resamples=RESAMPLES,
        batch=100,
        rng=np.random.default_rng(0),
    )
    return result.confidence_interval.low, result.confidence_interval.high


def student(samples: np.ndarray) -> Intervals:
    """Student's t."""
    interval = stats.ttest_1samp(samples, 0, axis=1).confidence_interval()
    return interval.low, interval.high


def ours(samples: np.ndarray) -> Intervals:
    """Student's t corrected for skewness, which comparisons report."""
    low, high = np.array([mean_interval(sample) for sample in samples]).T
    return low, high


METHODS = {"percentile bootstrap": percentile, "BCa bootstrap": bca, "Student's t": student}
METHODS["t, skewness corrected"] = ours


def coverage(
    method: Callable[[np.ndarray], Intervals], source: Distribution, count: int, simulations: int
) -> float:
    """The share of intervals, in %, that hold the true mean."""
    samples = source.draw(np.random.default_rng(count), (simulations, count))
    low, high = method(samples)
    return 100 * float(((low <= source.mean) & (source.mean <= high)).mean())


def main() -> None:
    """Print one table per distribution."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=2000, help="samples (default: 2000)")
    simulations = parser.parse_args().simulations
    for source in DISTRIBUTIONS:
        print(f"\n{source.name + ', n =':<28}" + "".join(f"{count:>6}" for count in COUNTS))
        for name, method in METHODS.items():
            shares = [coverage(method, source, count, simulations) for count in COUNTS]
            print(f"  {name:<26}" + "".join(f"{share:>6.1f}" for share in shares), flush=True)


if __name__ == "__main__":
    main()
