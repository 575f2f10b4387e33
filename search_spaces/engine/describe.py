"""A space as a table, as `--dry-run` prints it."""

from collections.abc import Iterable, Sequence
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from search_spaces.engine.loader import SpaceModule
from search_spaces.engine.probe import Probe, explore
from search_spaces.engine.task_space import DEFAULT_MODELS

MAX_RANGES = 3  # ranges shown per parameter, if they differ between trials


def describe(
    space: SpaceModule,
    scale: str,
    estimators: Sequence[str],
    models: Sequence[str] = DEFAULT_MODELS,
) -> list[tuple[str, str]]:
    """Every setting once, with its range or fixed value and the condition under which it applies.

    Example: ("estimator.gamma", "0.8 to 0.99; only if estimator is reinforce")
    """
    probes = explore(space, scale, estimators, models)
    searched = _unique(name for probe in probes for name in probe.values)
    fixed = _unique(name for probe in probes for name in probe.settings if name not in searched)
    return [(name, _search_text(name, probes)) for name in searched] + [
        (name, _fixed_text(name, probes)) for name in fixed
    ]


def _unique(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _search_text(name: str, probes: Sequence[Probe]) -> str:
    ranges = _unique(
        range_text(probe.distributions[name]) for probe in probes if name in probe.values
    )
    return _joined(ranges) + condition(name, [name in probe.values for probe in probes], probes)


def _fixed_text(name: str, probes: Sequence[Probe]) -> str:
    values = _unique(_text(probe.settings[name]) for probe in probes if name in probe.settings)
    present = [name in probe.settings for probe in probes]
    return f"{_joined(values)} (fixed)" + condition(name, present, probes)


def _joined(texts: Sequence[str]) -> str:
    return ", or ".join(texts[:MAX_RANGES]) + (", or ..." if len(texts) > MAX_RANGES else "")


def range_text(distribution: BaseDistribution) -> str:
    """A range in words."""
    if isinstance(distribution, CategoricalDistribution):
        options = [_text(option) for option in distribution.choices]
        return options[0] if len(options) == 1 else f"one of {', '.join(options)}"
    assert isinstance(distribution, IntDistribution | FloatDistribution)
    text = f"{_text(distribution.low)} to {_text(distribution.high)}"
    if distribution.log:
        return f"{text}, log"
    whole = isinstance(distribution, IntDistribution) and distribution.step == 1
    return text if whole or distribution.step is None else f"{text}, step {distribution.step:g}"


def condition(name: str, present: Sequence[bool], probes: Sequence[Probe]) -> str:
    """The choice of another parameter that decides whether this one exists, if there is one."""
    if all(present):
        return ""
    for other in _unique(key for probe in probes for key in probe.values if key != name):
        values = _deciding(other, present, probes)
        if values:
            return f"; only if {other} is {' or '.join(map(_text, values))}"
    return "; in some trials only"


def _deciding(other: str, present: Sequence[bool], probes: Sequence[Probe]) -> list[Any]:
    """The values of `other` that imply the parameter, if there is no exception."""
    asked = [probe for probe in probes if other in probe.values]
    if not isinstance(asked[0].distributions[other], CategoricalDistribution):
        return []
    values = _unique(
        probe.values[other]
        for is_present, probe in zip(present, probes, strict=True)
        if is_present and other in probe.values
    )
    decided = [other in probe.values and probe.values[other] in values for probe in probes]
    # If all choices imply it, the two merely share a condition.
    every_value = _unique(probe.values[other] for probe in asked)
    return values if decided == list(present) and len(values) < len(every_value) else []


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as `--set` accepts it
    return f"{value:g}" if isinstance(value, float) else str(value)
