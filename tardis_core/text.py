"""Durations, numbers, settings and errors as short texts for people."""

import math
from collections.abc import Sequence


def duration(seconds: float) -> str:
    """A duration in one or two units, such as `5 min` or `2 h 10 min`; never less than `1 s`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{round(hours / 24)} days"


def short(value: object) -> str:
    """A setting in few characters, the same whether it is a number or the text of one."""
    text = str(value)
    try:
        return text if text.isdecimal() else f"{float(text):.4g}"
    except ValueError:
        return text


def counted(count: int, noun: str) -> str:
    """A number of things: `1 seed`, `2 seeds`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def number(value: object) -> str:
    """A cell of a table: numbers with four significant digits, a dash where there is none."""
    if isinstance(value, float):
        return "-" if value != value else f"{value:.4g}"
    return "-" if value is None else str(value)


def aligned(values: Sequence[float | None]) -> list[str]:
    """A column of numbers with equally many decimals: four significant digits of most of them."""
    given = sorted(abs(value) for value in values if value is not None and value == value)
    middle = given[len(given) // 2] if given else 0.0
    if not 1e-4 <= middle < 1e6:
        return [number(value) for value in values]
    decimals = max(0, 3 - math.floor(math.log10(middle)))
    return ["-" if v is None or v != v else f"{v:.{decimals}f}" for v in values]


def error_line(error: BaseException, *, last: bool = False, limit: int | None = None) -> str:
    """The first line of an error's message, or its type where it has none.

    Args:
        last: take the last line instead, where a traceback precedes the message.
        limit: maximum number of characters.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[-1 if last else 0] if lines else type(error).__name__
    return line[:limit]
