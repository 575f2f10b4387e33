"""Values that a user has given as text or number, in the type that a search would give them."""

from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from search_spaces.engine.describe import range_text
from tardis_core.text_values import RULES, to_type


def as_searched(name: str, value: Any, distribution: BaseDistribution) -> Any:
    """A fixed value as the type that is searched; it may lie outside the range, on purpose."""
    try:
        return _converted(value, distribution)
    except ValueError as error:
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
    return to_type(value, kind)


def _type(distribution: BaseDistribution) -> type | None:
    """The type of the values, if they have one in common."""
    if isinstance(distribution, CategoricalDistribution):
        types = {type(option) for option in distribution.choices}
        return types.pop() if len(types) == 1 else None
    return int if isinstance(distribution, IntDistribution) else float


def _rule(distribution: BaseDistribution) -> str:
    kind = _type(distribution)
    return RULES.get(kind, "a value") if kind is not None else "a value"
