"""The grid of a space: all its combinations, counted by walking through every branch."""

from collections.abc import Callable, Iterator
from typing import Any, cast

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from search_spaces.engine.probe import RecordingTrial

Space = Callable[[optuna.Trial], dict[str, Any]]


def count_combinations(space: Space, limit: int) -> int:
    """The number of combinations of a space; above `limit` counting ends.

    Raises:
        ValueError: if a range has infinitely many values
    """
    count = 0
    for count, _ in enumerate(_combinations(space), start=1):
        if count > limit:
            break
    return count


def _combinations(space: Space) -> Iterator[dict[str, Any]]:
    """The settings of every combination: the last choice changes first, as on a counter."""
    chosen: list[int] = []  # the place of each answer among its values, in the order of questions
    while True:
        sizes: list[int] = []

        def answer(name: str, distribution: BaseDistribution, sizes: list[int] = sizes) -> Any:
            candidates = values_of(name, distribution)
            if len(sizes) == len(chosen):
                chosen.append(0)
            sizes.append(len(candidates))
            return candidates[chosen[len(sizes) - 1]]

        yield space(cast(optuna.Trial, RecordingTrial(answer, number=0)))
        while chosen and chosen[-1] == sizes[len(chosen) - 1] - 1:
            chosen.pop()
        if not chosen:
            return
        chosen[-1] += 1


def values_of(name: str, distribution: BaseDistribution) -> list[Any]:
    """The values of a range with steps."""
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    assert isinstance(distribution, IntDistribution | FloatDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    if step is None:
        raise ValueError(f"a grid needs steps, and {name} can be any number from {low} to {high}")
    if distribution.log:
        return list(range(int(low), int(high) + 1))
    return [low + step * place for place in range(round((high - low) / step) + 1)]
