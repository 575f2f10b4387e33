"""Values that a user has given as text or number, in the type that a search would give them."""

import math
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from search_spaces.engine.describe import range_text
from tardis_core.config import SWITCHES


def as_searched(name: str, value: Any, distribution: BaseDistribution) -> Any:
    """A fixed value as the type that is searched; it may lie outside the range, on purpose."""
    try:
        return _converted(value, distribution)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} must be {_rule(distribution)}, as the search has it "
            f"({range_text(distribution)}), not {value!r}"
        ) from error


def _converted(value: Any, distribution: BaseDistribution) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        for option in distribution.choices:
            if str(value).lower() == str(option).lower():
                return option
    return _as_type(value, _type(distribution))


def _as_type(value: Any, kind: type | None) -> Any:
    if kind is None or not isinstance(value, str | int | float):
        return value
    if kind is bool:
        return _switch(str(value).lower())
    if isinstance(value, bool) and kind is not str:
        raise ValueError("a switch is no number")
    made = kind(value)
    if kind is int and float(value) != made:
        raise ValueError("not a whole number")
    if kind is float and not math.isfinite(made):
        raise ValueError("not a finite number")
    return made


def _switch(word: str) -> bool:
    if word not in SWITCHES:
        raise ValueError("neither true nor false")
    return SWITCHES[word]


def _type(distribution: BaseDistribution) -> type | None:
    """The type of the values, if they have one in common."""
    if isinstance(distribution, CategoricalDistribution):
        types = {type(option) for option in distribution.choices}
        return types.pop() if len(types) == 1 else None
    return int if isinstance(distribution, IntDistribution) else float


def _rule(distribution: BaseDistribution) -> str:
    rules = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    kind = _type(distribution)
    return rules.get(kind, "a value") if kind is not None else "a value"
