"""What the spaces of all tasks share: ranges, the choice of estimator, the rows of a paper's table.

A parameter of a trial has the name of the setting that it becomes (`memory.cells`), because Ray
hands the suggestions over as the configuration. This package knows Optuna only, so the few names
of `tardis_core` that it needs stand here; a test compares them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from search_spaces.models import has, of

T = TypeVar("T")
Ranges = Mapping[str, BaseDistribution]

SCALES = ("smoke", "small", "paper")
TARDIS = "tardis"
REINFORCE = "reinforce"
NO_ESTIMATOR = "none"  # of a model that makes no discrete choice
DEFAULT_MODELS = (TARDIS,)

SWITCH = CategoricalDistribution((True, False))

# What a read is worth shows some steps later: gamma 0.8 looks 5 steps ahead, 0.99 a hundred.
# A weight or an entropy bonus is right to a factor, hence the logarithm; without a bonus reads
# settle at once, above 0.3 they stay uniform. A baseline is always worth having.
REINFORCE_RANGES: Ranges = {
    "estimator.auxiliary": SWITCH,
    "estimator.auxiliary_share": FloatDistribution(0.25, 1.0, step=0.25),
    "estimator.gamma": FloatDistribution(0.8, 0.99),
    "estimator.baseline": CategoricalDistribution(("batch", "input", "running")),
    "estimator.weight": FloatDistribution(0.01, 1.0, log=True),
    "estimator.entropy": FloatDistribution(0.02, 0.3, log=True),
}
# The paper gives no figures for these: the defaults of `tardis_core`.
REINFORCE_GUESS: Mapping[str, Any] = {
    "estimator.gamma": 0.95,
    "estimator.baseline": "batch",
    "estimator.weight": 0.1,
    "estimator.entropy": 0.1,
}


def choices(*values: Any) -> CategoricalDistribution:
    """One of some values that have no useful order, or whose steps are uneven."""
    return CategoricalDistribution(values)


def steps(low: int, high: int, step: int) -> IntDistribution:
    """A whole number, both ends included."""
    return IntDistribution(low, high, step=step)


def rate(low: float, high: float) -> FloatDistribution:
    """A number that is right to a factor: searched by its logarithm."""
    return FloatDistribution(low, high, log=True)


def share(high: float, step: float) -> FloatDistribution:
    """From 0, for what may be left out, such as dropout."""
    return FloatDistribution(0.0, high, step=step)


def at_scale(table: Mapping[str, T], scale: str) -> T:
    """The entry of a scale."""
    if scale not in table:
        raise ValueError(f"unknown scale {scale!r}; choose one of: {', '.join(table)}")
    return table[scale]


def ask(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> Any:
    """Suggest one setting from its range."""
    match distribution:
        case CategoricalDistribution():
            return trial.suggest_categorical(name, distribution.choices)
        case IntDistribution(low=low, high=high, step=step, log=log):
            return trial.suggest_int(name, low, high, step=step, log=log)
        case FloatDistribution(low=low, high=high, step=step, log=log):
            return trial.suggest_float(name, low, high, step=step, log=log)
    raise TypeError(f"{name}: no such distribution: {distribution!r}")


def ask_all(trial: optuna.Trial, ranges: Ranges, *names: str) -> dict[str, Any]:
    """Suggest the named settings, in this order."""
    return {name: ask(trial, name, ranges[name]) for name in names}


def ask_known(trial: optuna.Trial, ranges: Ranges, model: str, *names: str) -> dict[str, Any]:
    """Suggest those of the named settings that the model has."""
    return ask_all(trial, ranges, *(name for name in names if has(model, name)))


def ask_own(trial: optuna.Trial, model: str) -> dict[str, Any]:
    """Suggest what only this model has."""
    own = of(model).own
    return ask_all(trial, own, *own)


def ask_model(
    trial: optuna.Trial, estimators: Sequence[str], models: Sequence[str]
) -> dict[str, Any]:
    """The model and, where it chooses cells, the estimator.

    A single choice is asked for, too, so that whoever fixes it changes what depends on it.
    """
    model = ask(trial, "model", _named("model", models))
    if not of(model).discrete:
        return {"model": model, "estimator": NO_ESTIMATOR}
    return {"model": model, "estimator": ask(trial, "estimator", _named("estimator", estimators))}


def _named(kind: str, names: Iterable[str]) -> CategoricalDistribution:
    # Sorted: a study takes the same choices in another order for different ones.
    unique = sorted(set(names))
    if not unique:
        raise ValueError(f"a search needs at least one {kind}, not none")
    return CategoricalDistribution(unique)


def ask_reinforce(trial: optuna.Trial, *, mixed: bool = False) -> dict[str, Any]:
    """What only REINFORCE has; `mixed` lets the model's own likelihood into the reward."""
    found = ask_all(trial, REINFORCE_RANGES, "estimator.auxiliary")
    if mixed and found["estimator.auxiliary"]:
        found |= ask_all(trial, REINFORCE_RANGES, "estimator.auxiliary_share")
    return found | ask_all(trial, REINFORCE_RANGES, *REINFORCE_GUESS)


class Row(NamedTuple):
    """A row of the paper's table for a task: what sets it apart from the other rows."""

    model: str
    estimator: str = NO_ESTIMATOR
    settings: Mapping[str, Any] = {}


def guesses(
    rows: Sequence[Row],
    sizes: Mapping[str, Any],
    estimators: Sequence[str],
    models: Sequence[str],
    recipes: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """The rows that the search allows, each a full point of the space.

    A model without a row of its own has its preset, once for every estimator that it can have.

    Args:
        recipes: what the task sets differently for a model.
    """
    return [
        _point(row, sizes, (recipes or {}).get(row.model, {}))
        for row in (*rows, *_other_rows(rows, estimators, models))
        if row.model in models and (not of(row.model).discrete or row.estimator in estimators)
    ]


def _other_rows(rows: Sequence[Row], estimators: Sequence[str], models: Sequence[str]) -> list[Row]:
    named = {row.model for row in rows}
    # An estimator is set up as in the first row that has it.
    settings = {
        row.estimator: {
            name: value for name, value in row.settings.items() if name.startswith("estimator.")
        }
        for row in reversed(rows)
    }
    return [
        Row(model, estimator, settings.get(estimator, {}))
        for model in sorted(set(models) - named)
        for estimator in (estimators if of(model).discrete else [NO_ESTIMATOR])
    ]


def _point(row: Row, sizes: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in sizes.items() if has(row.model, name)}
    chosen = {"estimator": row.estimator} if of(row.model).discrete else {}
    learned = REINFORCE_GUESS if row.estimator == REINFORCE else {}
    own = {**known, **of(row.model).guess, **recipe, **learned}
    return {"model": row.model, **chosen, **own, **row.settings}
