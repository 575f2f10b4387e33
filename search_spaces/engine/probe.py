"""Find out what a space asks for by sampling it many times without a study."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalChoiceType,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from search_spaces.engine.loader import SpaceModule

PROBES = 200  # a branch with a probability of 5 % is missed once in 30,000 times
SEED = 0


@dataclass(frozen=True)
class Probe:
    """One sample of a space."""

    values: dict[str, Any]  # the parameters asked for, and the random answers
    distributions: dict[str, BaseDistribution]
    settings: dict[str, Any]  # what the space returned


class RecordingTrial(optuna.trial.FixedTrial):
    """A trial without a study: it answers by a function and records the questions."""

    def __init__(self, answer: Callable[[str, BaseDistribution], Any], number: int) -> None:
        super().__init__({}, number=number)
        self._answer_to = answer
        self.asked: dict[str, tuple[BaseDistribution, Any]] = {}

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        return self._answer(name, FloatDistribution(low, high, step=step, log=log))

    def suggest_int(
        self, name: str, low: int, high: int, *, step: int = 1, log: bool = False
    ) -> int:
        return self._answer(name, IntDistribution(low, high, step=step, log=log))

    def suggest_categorical(self, name: str, choices: Sequence[CategoricalChoiceType]) -> Any:
        return self._answer(name, CategoricalDistribution(choices))

    def _answer(self, name: str, distribution: BaseDistribution) -> Any:
        if name not in self.asked:
            self.asked[name] = distribution, self._answer_to(name, distribution)
        return self.asked[name][1]


def draw(distribution: BaseDistribution, rng: random.Random) -> Any:
    """A random value of a distribution."""
    if isinstance(distribution, CategoricalDistribution):
        return rng.choice(distribution.choices)
    assert isinstance(distribution, IntDistribution | FloatDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    if distribution.log:
        value = math.exp(rng.uniform(math.log(low), math.log(high)))
        value = round(value) if isinstance(distribution, IntDistribution) else value
    elif step is None:
        value = rng.uniform(low, high)
    else:
        value = low + step * rng.randint(0, round((high - low) / step))
    return min(max(value, low), high)


def explore(
    space: SpaceModule, scale: str, estimators: Sequence[str], models: Sequence[str]
) -> list[Probe]:
    """Sample a space often enough to reach all its branches."""
    rng = random.Random(SEED)
    probes = []
    for number in range(PROBES):
        trial = RecordingTrial(lambda _, distribution: draw(distribution, rng), number)
        settings = space.space(cast(optuna.Trial, trial), scale, estimators, models)
        values = {name: value for name, (_, value) in trial.asked.items()}
        asked = {name: distribution for name, (distribution, _) in trial.asked.items()}
        probes.append(Probe(values, asked, dict(settings)))
    return probes
