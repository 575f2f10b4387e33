"""The space of a task: which settings are searched in which ranges, and what is tried first.

A parameter of a trial has the name of the setting that it becomes (`memory.cells`), because Ray
hands the suggestions over as the configuration. Which model and estimator has which setting, and
what the presets are, is asked of `tardis_core`, where it is written.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution

from search_spaces.engine.ranges import OF_MODELS, Ranges, ask
from tardis_core import paper
from tardis_core.config import NO_ESTIMATOR, Config, has_setting, make_config
from tardis_core.models.base import MODELS

DEFAULT_MODELS = ("tardis",)
# A detail of what is off is not searched.
ONLY_WITH = {
    "model.reset_bias": "model.reset_gates",
    "estimator.auxiliary_share": "estimator.auxiliary",
    "estimator.auxiliary_until": "estimator.auxiliary",
}


@dataclass(frozen=True)
class TaskSpace:
    """A search space; its two methods are what a module of this package has as functions."""

    task: str
    ranges: Mapping[str, Ranges]  # by scale, in the order in which they are asked
    # Where our recipe departs from the paper's configurations, which are tried first.
    as_in_the_paper: Mapping[str, Any] = field(default_factory=dict)
    of_models: Mapping[str, Ranges] = field(default_factory=dict)  # what is searched of one model

    def space(
        self,
        trial: optuna.Trial,
        scale: str,
        estimators: Sequence[str],
        models: Sequence[str] = DEFAULT_MODELS,
    ) -> dict[str, Any]:
        """The settings of one trial."""
        ranges = self._at(scale)
        settings = _ask_model(trial, estimators, models)
        for name, distribution in self._asked(ranges, settings, settings.get):
            settings[name] = ask(trial, name, distribution)
        return settings

    def first_guesses(
        self, scale: str, estimators: Sequence[str], models: Sequence[str] = DEFAULT_MODELS
    ) -> list[dict[str, Any]]:
        """The rows of the paper's table, the best first; then the presets of the other models."""
        rows = [dict(row.settings) for row in reversed(paper.rows(self.task)) if row.settings]
        pairs = {
            (model, estimator): {"model": model, "estimator": estimator}
            for model in sorted(models)
            for estimator in (estimators if MODELS.get(model).discrete else [None])
        }
        named = [row for row in rows if _pair(row) in pairs]
        others = [row for pair, row in pairs.items() if pair not in map(_pair, rows)]
        return [self._point(row, scale) for row in (*named, *others)]

    def _point(self, row: Mapping[str, Any], scale: str) -> dict[str, Any]:
        """A row as a full point of the space: all else is as in the presets."""
        ranges = self._at(scale)
        model, estimator = row["model"], row.get("estimator")
        stated = {key: value for key, value in row.items() if "." in key}
        for key, value in self.as_in_the_paper.items():
            if has_setting(self.task, model, estimator, key):
                stated.setdefault(key, value)
        config = make_config(self.task, model, estimator, scale, overrides=stated)
        values = config.settings()
        names = {"model": model} | ({"estimator": estimator} if estimator else {})
        known = _names_of(config)
        return names | {name: values[name] for name, _ in self._asked(ranges, known, values.get)}

    def _asked(
        self, ranges: Ranges, names: Mapping[str, Any], value_of: Callable[[str], Any]
    ) -> Iterator[tuple[str, BaseDistribution]]:
        """What is searched of this model and estimator, given what has been chosen so far."""
        model, estimator = names["model"], names["estimator"]
        own = {**OF_MODELS.get(model, {}), **self.of_models.get(model, {})}
        for name, distribution in {**ranges, **own}.items():
            needed = ONLY_WITH.get(name)
            if has_setting(self.task, model, estimator, name) and (
                needed is None or value_of(needed)
            ):
                yield name, distribution

    def _at(self, scale: str) -> Ranges:
        if scale not in self.ranges:
            raise ValueError(f"unknown scale {scale!r}; choose one of: {', '.join(self.ranges)}")
        return self.ranges[scale]


def _pair(row: Mapping[str, Any]) -> tuple[str, str | None]:
    return row["model"], row.get("estimator")


def _names_of(config: Config) -> dict[str, str]:
    return {"model": config.model, "estimator": config.estimator}


def _ask_model(
    trial: optuna.Trial, estimators: Sequence[str], models: Sequence[str]
) -> dict[str, Any]:
    """The model and, where it chooses cells, the estimator.

    A single choice is asked for, too, so that whoever fixes it changes what depends on it.
    """
    model = ask(trial, "model", _named("model", models))
    if not MODELS.get(model).discrete:
        return {"model": model, "estimator": NO_ESTIMATOR}
    return {"model": model, "estimator": ask(trial, "estimator", _named("estimator", estimators))}


def _named(kind: str, names: Iterable[str]) -> CategoricalDistribution:
    # Sorted: a study takes the same choices in another order for different ones.
    unique = sorted(set(names))
    if not unique:
        raise ValueError(f"a search needs at least one {kind}, not none")
    return CategoricalDistribution(unique)
