"""The space of a task: which settings are searched in which ranges, and what is tried first.

A parameter of a trial has the name of its setting (`memory.cells`), because Ray passes the
suggested parameters on as the configuration. `tardis_core` defines which model and estimator has
which setting, and the presets.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution

from search_spaces.engine.ranges import MODEL_RANGES, Ranges, ask
from tardis_core import paper
from tardis_core.config import NO_ESTIMATOR, Config, has_setting, make_config, setting_names
from tardis_core.models.base import MODELS

DEFAULT_MODELS = ("tardis",)
# These settings are searched only if the other one is on.
ONLY_WITH = {
    "model.norm_gain": "model.layer_norm",
    "model.reset_bias": "model.reset_gates",
    "estimator.auxiliary_share": "estimator.auxiliary",
    "estimator.auxiliary_until": "estimator.auxiliary",
}
NOT_WITH = {"estimator.temperature": "estimator.learned"}  # and these only if it is off


@dataclass(frozen=True)
class TaskSpace:
    """A search space; a module of this package exports its two methods as functions."""

    task: str
    ranges: Mapping[str, Ranges]  # by scale, in the order in which a trial is asked
    # The paper's values of settings whose presets differ; the paper's configurations come first.
    paper_settings: Mapping[str, Any] = field(default_factory=dict)
    model_ranges: Mapping[str, Ranges] = field(default_factory=dict)  # further ranges by model

    def space(
        self,
        trial: optuna.Trial,
        scale: str,
        estimators: Sequence[str],
        models: Sequence[str] = DEFAULT_MODELS,
    ) -> dict[str, Any]:
        """The settings of one trial."""
        ranges = self._ranges_at(scale)
        settings = _ask_model(trial, estimators, models)
        for name, distribution in self._asked(ranges, settings, settings.get):
            settings[name] = ask(trial, name, distribution)
        return settings

    def first_guesses(
        self, scale: str, estimators: Sequence[str], models: Sequence[str] = DEFAULT_MODELS
    ) -> list[dict[str, Any]]:
        """The rows of the paper's table, best first, then the presets of the other models."""
        rows = [dict(row.settings) for row in reversed(paper.rows(self.task)) if row.settings]
        pairs = {
            (model, estimator): {"model": model, "estimator": estimator}
            for model in sorted(models)
            for estimator in (estimators if MODELS.get(model).discrete else [None])
        }
        in_table = [row for row in rows if _pair(row) in pairs]
        others = [row for pair, row in pairs.items() if pair not in map(_pair, rows)]
        return [self._point(row, scale) for row in (*in_table, *others)]

    def _point(self, row: Mapping[str, Any], scale: str) -> dict[str, Any]:
        """A row as a full point of the space; other settings have their presets."""
        ranges = self._ranges_at(scale)
        model, estimator = row["model"], row.get("estimator")
        stated = {key: value for key, value in row.items() if "." in key}
        for key, value in self.paper_settings.items():
            if has_setting(self.task, model, estimator, key):
                stated.setdefault(key, value)
        config = make_config(self.task, model, estimator, scale, overrides=stated)
        values = config.settings()
        names = {"model": model} | ({"estimator": estimator} if estimator else {})
        resolved = _names_of(config)
        asked = self._asked(ranges, resolved, values.get)
        return names | {name: values[name] for name, _ in asked}

    def _asked(
        self, ranges: Ranges, names: Mapping[str, Any], value_of: Callable[[str], Any]
    ) -> Iterator[tuple[str, BaseDistribution]]:
        """The settings to search for this model and estimator, given the choices so far."""
        model, estimator = names["model"], names["estimator"]
        own = {**MODEL_RANGES.get(model, {}), **self.model_ranges.get(model, {})}
        settings = setting_names(self.task, model, estimator)
        for name, distribution in {**ranges, **own}.items():
            needed, excluded = ONLY_WITH.get(name), NOT_WITH.get(name)
            if name not in settings:
                continue
            if (needed is None or value_of(needed)) and not (excluded and value_of(excluded)):
                yield name, distribution

    def _ranges_at(self, scale: str) -> Ranges:
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
    """The model and, if it reads discretely, the estimator.

    Even a single choice is asked for, so that `--set` can fix it and what depends on it follows.
    """
    model = ask(trial, "model", _named("model", models))
    if not MODELS.get(model).discrete:
        return {"model": model, "estimator": NO_ESTIMATOR}
    return {"model": model, "estimator": ask(trial, "estimator", _named("estimator", estimators))}


def _named(kind: str, names: Iterable[str]) -> CategoricalDistribution:
    # Sorted, because a study rejects the same choices in another order.
    unique = sorted(set(names))
    if not unique:
        raise ValueError(f"a search needs at least one {kind}; none was given")
    return CategoricalDistribution(unique)
