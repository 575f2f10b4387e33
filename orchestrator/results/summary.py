"""A sweep as one JSON object, for scripts: what `--json` prints."""

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from typing import Any

from orchestrator.execution.driver import Outcome
from orchestrator.execution.status import status_of
from orchestrator.planning.plan import SweepPlan
from orchestrator.results import failures, report
from orchestrator.results.records import Records


@contextmanager
def messages_to_stderr(wanted: bool) -> Iterator[None]:
    """A context in which everything that is printed leaves the standard output alone, if wanted."""
    if not wanted:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


def summary(records: Records, outcome: Outcome) -> dict[str, Any]:
    """The status of the sweep, its best trial with its configuration, and what went wrong."""
    number = records.best_trial()
    best = None
    if number is not None:
        best = {
            "trial": number,
            records.plan.metric: records.objective(number),
            "command": report.command_of(records, number),
            "config": records.trials[number].config().to_dict(),
        }
    return {
        **status_of(records.plan).as_json(),
        "finished": outcome.finished,
        "best_config": best,
        "failures": failures.reasons(records),
        "undelivered": {"waiting": outcome.waiting, "refused": outcome.refused},
        "exit_code": outcome.exit_code,
    }


def as_text(values: dict[str, Any]) -> str:
    """The object on one line; JSON has neither NaN nor infinity, so they become null."""
    return json.dumps(_finite(values))


def plan_text(plan: SweepPlan) -> str:
    """A plan as JSON, without passwords."""
    return as_text({"kind": plan.kind, **asdict(plan.without_secrets())})


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case float() if not math.isfinite(value):
            return None
    return value
