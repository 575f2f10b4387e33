"""Which validation of a run is the best: decided here for trainers, trials, records and champions.

It needs no torch, so that whoever reads results can import it at once.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

Row = TypeVar("Row", bound=Mapping[str, Any])


def phase_start(settings: Mapping[str, Any], race: bool = False) -> float:
    """The update after which the best weights are sought, from all settings of a run.

    With `memory.vary_cells_from` below 1 training ends with a phase whose batches are harder in a
    way that validation does not see: its best weights count, even if earlier ones scored better.

    Args:
        race: of several seeds: the validations of the first one alone come before all others.
    """
    share = settings.get("memory.vary_cells_from", 1.0)
    start = share * settings["training.updates"] if share < 1 else 0.0
    return start + settings["training.updates"] if race else start


def best_row(rows: Iterable[Row], name: str, better: str, start: float = 0.0) -> Row | None:
    """The best of some validations, the earliest of equals; None if there is no number.

    Args:
        rows: one per validation, with the number of its "update".
        name: the column to judge by, such as "valid_bpc".
        better: "lower" or "higher".
        start: of `phase_start`; earlier rows count only while there are no later ones.
    """
    numbers = [row for row in rows if not math.isnan(row[name])]
    candidates = [row for row in numbers if row["update"] > start] or numbers
    pick = min if better == "lower" else max
    return pick(candidates, key=lambda row: row[name], default=None)
