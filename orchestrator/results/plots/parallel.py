"""The settings of all trials as parallel axes, with the lines of good trials in front."""

from collections.abc import Sequence
from typing import Any

from orchestrator.page.page import Plot, rounded
from orchestrator.results.records import Records

MOST_AXES = 6  # nobody can read more
MOST_CHOICES = 6  # different numbers that are shown like names: each with its label


def parallel(records: Records, names: Sequence[str]) -> Plot | None:
    """One axis per setting and one for the result; None without settings that differ."""
    numbers = [n for n in sorted(records.trials) if records.objective(n) is not None]
    if len(numbers) < 2 or not names:
        return None
    plan = records.plan
    columns = {name: [records.trials[n].params.get(name) for n in numbers] for name in names}
    return Plot(
        "parallel",
        "Settings and results",
        {
            "yLabel": plan.metric,
            "better": plan.better,
            "axes": [_axis(name, values) for name, values in list(columns.items())[:MOST_AXES]],
            "objective": rounded([records.objective(n) for n in numbers]),
            "states": [str(records.trials[n].state) for n in numbers],
            "numbers": numbers,
        },
        420,
    )


def _axis(name: str, values: Sequence[str | None]) -> dict[str, Any]:
    """Numbers as they are; words, and numbers with few values, by their place in a list."""
    given = {value for value in values if value is not None}
    numbers = {value: number for value in given if (number := _number(value)) is not None}
    if len(numbers) == len(given) > MOST_CHOICES:
        places = rounded([None if value is None else numbers[value] for value in values])
        return {"name": name, "choices": None, "values": places}
    choices = sorted(given, key=lambda value: (numbers.get(value, 0.0), value))
    labels = [f"{numbers[value]:.4g}" if value in numbers else value for value in choices]
    places = [None if value is None else choices.index(value) for value in values]
    return {"name": name, "choices": labels, "values": places}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
