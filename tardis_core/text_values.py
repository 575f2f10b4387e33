"""Text and numbers as values of a type: the one way in which settings are read.

It imports neither torch nor Optuna, so that whatever reads settings can use it.
"""

import math
from typing import Any

RULES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
SWITCHES = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def to_type(value: Any, kind: type) -> Any:
    """`value` as bool, int, float or str, or `ValueError` if it is none.

    A number must be finite and a whole number exact; a switch is no number.
    """
    try:
        if kind is bool:
            return SWITCHES[str(value).lower()]
        converted = kind(value)
        exact = kind is not int or float(value) == converted
        finite = kind is str or math.isfinite(converted)
    except (KeyError, TypeError, ValueError, OverflowError):
        exact = finite = False
    if not (exact and finite) or isinstance(value, bool):
        raise ValueError(f"must be {RULES[kind]}, not {value!r}")
    return converted
