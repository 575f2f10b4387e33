"""The weights that stand for a sweep: those of its best trial, or of the next if they are lost."""

import logging
from pathlib import Path

from orchestrator.execution.checkpoints import fetch_best
from orchestrator.results.records import Records

_log = logging.getLogger(__name__)


def best_weights(records: Records) -> tuple[int, Path] | None:
    """The best trial whose weights are whole, and its file; None if there is none.

    Raises:
        OSError: if the storage of the sweep cannot be reached
    """
    numbers = records.best_trials()
    for number in numbers:
        weights = fetch_best(records.plan, number)
        if weights is None:
            continue
        if number != numbers[0]:
            _log.warning("the weights of trial %d are lost; trial %d is next", numbers[0], number)
        return number, weights
    return None
