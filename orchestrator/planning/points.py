"""Points of a search space that people name: checked, and with the types that are searched."""

import random
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import optuna
from optuna.distributions import BaseDistribution

from orchestrator.planning.configs import space_of, trial_config
from orchestrator.planning.plan import SearchPlan
from search_spaces.engine.coerce import as_searched
from search_spaces.engine.describe import range_text
from search_spaces.engine.probe import PROBES, SEED, RecordingTrial, draw
from tardis_core.errors import UserError, require


class _Sample(NamedTuple):
    """A point of the space that has the given values wherever it is asked for them."""

    params: dict[str, Any]
    settings: dict[str, Any]


def checked_point(plan: SearchPlan, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given parameters with their types; the search draws the others.

    Raises:
        UserError: for a name that is not searched, a value outside its range, or a configuration
            that no network can be built with.
    """
    require(bool(given), "name at least one setting, such as training.learning_rate=0.003")
    samples = _samples(plan, given)
    for name in given:
        _check_asked(plan, name, given, samples)
    _check_configs(plan, samples)
    return {name: samples[0].params[name] for name in given}


def _samples(plan: SearchPlan, given: Mapping[str, Any]) -> list[_Sample]:
    space, rng = space_of(plan), random.Random(SEED)

    def answer(name: str, distribution: BaseDistribution) -> Any:
        if name not in given:
            return draw(distribution, rng)
        return in_range(name, given[name], distribution)

    samples = []
    for number in range(PROBES):
        trial = RecordingTrial(answer, number)
        try:
            settings = space(cast(optuna.Trial, trial))
        except ValueError as error:
            raise UserError(str(error)) from error
        samples.append(_Sample({name: value for name, (_, value) in trial.asked.items()}, settings))
    return samples


def in_range(name: str, value: Any, distribution: BaseDistribution) -> Any:
    """A value with the type that is searched; raises `ValueError` if it is out of range."""
    typed = as_searched(name, value, distribution)
    try:
        optuna.create_trial(params={name: typed}, distributions={name: distribution}, value=0.0)
    except ValueError:
        message = f"{name} must be in the range of the search, {range_text(distribution)}"
        raise UserError(f"{message}, not {value}") from None
    return typed


def _check_asked(
    plan: SearchPlan, name: str, given: Mapping[str, Any], samples: list[_Sample]
) -> None:
    asked = sum(name in each.params for each in samples)
    if asked == len(samples):
        return
    fixed = f"; it is fixed with --set {name}={plan.fixed[name]}" if name in plan.fixed else ""
    names = sorted({param for each in samples for param in each.params})
    require(
        asked > 0,
        f"{name} is not searched by {plan.name} with these settings{fixed}; searched are: "
        f"{', '.join(names)}",
    )
    branches = [each for each in names if each not in given and "." not in each]
    raise UserError(
        f"{name} is searched only with some values of settings that are not given"
        f"{f', such as {branches[0]}' if branches else ''}; give them, too"
    )


def _check_configs(plan: SearchPlan, samples: list[_Sample]) -> None:
    """Raise `UserError` if no sample can be built."""
    first: UserError | None = None
    for each in samples:
        try:
            trial_config(plan.task, plan.scale, plan.seed, each.settings)
            return
        except UserError as error:
            first = first or error
    if first:
        raise first
