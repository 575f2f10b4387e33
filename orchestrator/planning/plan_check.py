"""Whether the values of a plan file can be those of a plan: its types and its ranges."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin

# The least value of each number; the others may be any.
LEAST = {
    "trials": 1,
    "reports": 1,
    "seed": 0,
    "cpus_per_trial": 0,
    "gpus_per_trial": 0,
    "concurrency": 0,
    "time_budget": 0,
    "seeds_per_trial": 1,
    "grace": 0,
    "confirm_seeds": 0,
    "part": 0,
}


def check_fields(values: Any) -> None:
    """Raise `ValueError` for the first field of a dataclass whose value it cannot have."""
    for field in fields(values):
        name, value = field.name, getattr(values, field.name)
        if not _fits(value, field.type):
            raise ValueError(f"{name} is {value!r}, not {_words(field.type)}")
        if name in LEAST and value is not None and value < LEAST[name]:
            raise ValueError(f"{name} is {value}, less than {LEAST[name]}")


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a type as annotations name it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin is UnionType:
        return any(_fits(value, each) for each in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(each, arguments[0]) for each in value)
    if origin is dict:
        return isinstance(value, Mapping) and all(
            _fits(key, arguments[0]) and _fits(each, arguments[1]) for key, each in value.items()
        )
    if is_dataclass(kind):
        check_fields(value)
        return True
    if kind is float:
        return (
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        )
    return type(value) is kind or (kind is type(None) and value is None)


def _words(kind: Any) -> str:
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false"}.get(
        kind, str(kind)
    )
