"""Spaces with fixed settings (`--set memory.cells=32`), and spaces as functions of a trial.

Written by hand because Optuna cannot fix a parameter without recording it in the study. Ray pickles
the space of a sweep: every class here holds only functions by reference and plain values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalChoiceType,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from search_spaces.engine.coerce import as_searched
from search_spaces.engine.loader import SpaceModule
from search_spaces.engine.probe import explore
from search_spaces.engine.task_space import DEFAULT_MODELS

KINDS = ("model", "estimator")  # a first guess for another model or estimator is dropped


def fix(space: SpaceModule, fixed: Mapping[str, Any]) -> "FixedSpace":
    """The space with some settings fixed; text is converted to the type that is searched."""
    return FixedSpace(_Functions.of(space), dict(fixed))


def bind(
    space: SpaceModule,
    scale: str,
    estimators: Sequence[str],
    models: Sequence[str] = DEFAULT_MODELS,
) -> "BoundSpace":
    """The space as a function of a trial alone, as Ray's OptunaSearch expects it."""
    return BoundSpace(_Functions.of(space), scale, tuple(estimators), tuple(models))


@dataclass(frozen=True)
class _Functions:
    """A space that can be pickled: modules cannot be, their functions can."""

    space: Any
    first_guesses: Any

    @classmethod
    def of(cls, space: SpaceModule) -> SpaceModule:
        return cast(SpaceModule, cls(space.space, space.first_guesses))


@dataclass(frozen=True)
class BoundSpace:
    """A space of which only the trial is left to be given."""

    inner: SpaceModule
    scale: str
    estimators: tuple[str, ...]
    models: tuple[str, ...]

    def __call__(self, trial: optuna.Trial) -> dict[str, Any]:
        """The settings of one trial."""
        return self.inner.space(trial, self.scale, self.estimators, self.models)

    def first_guesses(self) -> list[dict[str, Any]]:
        """The points to be tried first."""
        return self.inner.first_guesses(self.scale, self.estimators, self.models)


@dataclass
class FixedSpace:
    """A space with some settings fixed."""

    inner: SpaceModule
    fixed: dict[str, Any]
    _searched_names: dict[Any, set[str]] = field(default_factory=dict, repr=False, compare=False)

    def space(
        self,
        trial: optuna.Trial,
        scale: str,
        estimators: Sequence[str],
        models: Sequence[str] = DEFAULT_MODELS,
    ) -> dict[str, Any]:
        """The settings of one trial, including the fixed ones that apply to it."""
        wrapped = FixingTrial(trial, self.fixed)
        settings = self.inner.space(cast(optuna.Trial, wrapped), scale, estimators, models)
        anywhere = self._asked_anywhere(scale, estimators, models)
        extra = {
            name: value
            for name, value in self.fixed.items()
            if _applies(name, wrapped.asked, anywhere)
        }
        return {**settings, **extra, **wrapped.answered}

    def first_guesses(
        self, scale: str, estimators: Sequence[str], models: Sequence[str] = DEFAULT_MODELS
    ) -> list[dict[str, Any]]:
        """The distinct guesses that agree with the fixed settings, without them."""
        points: list[dict[str, Any]] = []
        for guess in self.inner.first_guesses(scale, estimators, models):
            point = {name: value for name, value in guess.items() if name not in self.fixed}
            if not self._contradicts(guess) and point not in points:
                points.append(point)
        return points

    def _contradicts(self, guess: Mapping[str, Any]) -> bool:
        return any(
            kind in self.fixed and str(guess.get(kind, self.fixed[kind])) != str(self.fixed[kind])
            for kind in KINDS
        )

    def _asked_anywhere(
        self, scale: str, estimators: Sequence[str], models: Sequence[str]
    ) -> set[str]:
        """The names asked for in any branch that the fixed settings leave open."""
        key = scale, tuple(estimators), tuple(models)
        if key not in self._searched_names:
            names = _AskedNames(self.inner, self.fixed)
            probes = explore(cast(SpaceModule, names), scale, estimators, models)
            self._searched_names[key] = {name for probe in probes for name in probe.settings}
        return self._searched_names[key]


@dataclass(frozen=True)
class _AskedNames:
    """A space whose settings are the names that the inner space asks for, fixed or not."""

    inner: SpaceModule
    fixed: Mapping[str, Any]

    def space(
        self, trial: optuna.Trial, scale: str, estimators: Sequence[str], models: Sequence[str]
    ) -> dict[str, None]:
        wrapped = FixingTrial(trial, self.fixed)
        self.inner.space(cast(optuna.Trial, wrapped), scale, estimators, models)
        return dict.fromkeys(wrapped.asked)


def _applies(name: str, here: set[str], anywhere: set[str]) -> bool:
    """Whether a fixed setting applies to a trial.

    It does not if only other branches ask for it (gamma in a gumbel trial) or for its section. A
    setting that no branch asks for does apply.
    """
    if name in anywhere:
        return name in here
    section = name.partition(".")[0] + "."
    return not _has_section(section, anywhere) or _has_section(section, here)


def _has_section(section: str, names: set[str]) -> bool:
    return any(name.startswith(section) for name in names)


class FixingTrial:
    """A trial that answers fixed settings itself, so that the study does not record them."""

    def __init__(self, trial: optuna.Trial, fixed: Mapping[str, Any]) -> None:
        self._trial, self._fixed = trial, fixed
        self.asked: set[str] = set()
        self.answered: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trial, name)

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        if self._is_fixed(name):
            return self._answer(name, FloatDistribution(low, high, step=step, log=log))
        return self._trial.suggest_float(name, low, high, step=step, log=log)

    def suggest_int(
        self, name: str, low: int, high: int, *, step: int = 1, log: bool = False
    ) -> int:
        if self._is_fixed(name):
            return self._answer(name, IntDistribution(low, high, step=step, log=log))
        return self._trial.suggest_int(name, low, high, step=step, log=log)

    def suggest_categorical(self, name: str, choices: Sequence[CategoricalChoiceType]) -> Any:
        if self._is_fixed(name):
            return self._answer(name, CategoricalDistribution(choices))
        return self._trial.suggest_categorical(name, choices)

    # Optuna's older names, which a user's space may still call.
    def suggest_uniform(self, name: str, low: float, high: float) -> float:
        return self.suggest_float(name, low, high)

    def suggest_loguniform(self, name: str, low: float, high: float) -> float:
        return self.suggest_float(name, low, high, log=True)

    def suggest_discrete_uniform(self, name: str, low: float, high: float, q: float) -> float:
        return self.suggest_float(name, low, high, step=q)

    def _is_fixed(self, name: str) -> bool:
        self.asked.add(name)
        return name in self._fixed

    def _answer(self, name: str, distribution: BaseDistribution) -> Any:
        self.answered[name] = as_searched(name, self._fixed[name], distribution)
        return self.answered[name]
