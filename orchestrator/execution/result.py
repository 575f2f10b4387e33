"""The result that a trial sends to Ray at every validation: its keys, and what it says."""

import math
from collections.abc import Mapping
from typing import Any

from orchestrator.tracking.states import State

OBJECTIVE = "objective"  # best validation metric of the trial so far
REFUSED = "refused"  # in the configuration of a trial: why its space could not propose one
FINISHED = "finished"  # True in the last result of a trial that was trained to its end
FAILED = "failed"  # the reason, in the last result of a trial that cannot continue
ROWS = "rows"  # the validations that are new since the last result
NOTE = "note"  # what went wrong and was recovered from
RESUMED_FROM = "resumed_from"  # how many validations came from a checkpoint
SEED_VALUES = "seed_values"  # of a race, when its first seed or all are trained: one value each
FIRST_SEED = "first_seed_results"  # in the study: how many results the first seed has
# Kept as tags of the trial.
RECORDED = ("device", "backend", "parameters", "peak_memory_gb", NOTE)


def state_of(result: Mapping[str, Any] | None) -> State:
    """The state of a trial that ended with this result."""
    if not result or result.get(FAILED) or not has_objective(result):
        return State.FAILED
    return State.COMPLETE if result.get(FINISHED) else State.PRUNED


def has_objective(result: Mapping[str, Any]) -> bool:
    """Whether the result has a value to judge the trial by."""
    value = result.get(OBJECTIVE)
    return value is not None and not math.isnan(value)
