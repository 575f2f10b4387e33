"""Fixed values, converted to the type that the search would give them."""

from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from search_spaces.engine.describe import range_text
from tardis_core.text_values import to_type


def as_searched(name: str, value: Any, distribution: BaseDistribution) -> Any:
    """A fixed value as the type that is searched; it may be outside the range, deliberately."""
    try:
        return _converted(value, distribution)
    except ValueError as error:
        raise ValueError(f"{name} {error}; the search has {range_text(distribution)}") from error


def _converted(value: Any, distribution: BaseDistribution) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        for option in distribution.choices:
            if str(value).lower() == str(option).lower():
                return option
    kind = _type(distribution)
    if kind is None or not isinstance(value, str | int | float):
        return value
    return to_type(value, kind)


def _type(distribution: BaseDistribution) -> type | None:
    """The type that all values of a distribution have in common, if there is one."""
    if isinstance(distribution, CategoricalDistribution):
        types = {type(option) for option in distribution.choices}
        return types.pop() if len(types) == 1 else None
    return int if isinstance(distribution, IntDistribution) else float
