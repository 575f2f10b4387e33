"""The sweeps of a working folder: their state, their trials and their best value.

Everything is read from the plan and the event log, also while the sweep runs.
"""

import fcntl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.execution.progress import Snapshot, rows_of
from orchestrator.execution.requests import is_paused
from orchestrator.planning.plan import SweepPlan, load_plan, names_here
from orchestrator.tracking.event_log import LOG, scan
from orchestrator.tracking.events import Event, SweepEnded, SweepStarted
from orchestrator.tracking.states import PAUSED, State
from tardis_core.errors import UserError

ENDS = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "stopped"}


@dataclass(frozen=True)
class SweepStatus:
    """Where a sweep is."""

    plan: SweepPlan
    state: str  # running, paused, finished, stopped (--resume continues it), killed, failed or new
    progress: Snapshot
    started: float | None  # seconds since 1970
    updated: float | None  # time of the last event

    @property
    def best_trial(self) -> int | None:
        """The best complete trial, or the best so far if none is."""
        rows, ranked = self.progress.rows, self.progress.ranked()
        complete = [number for number in ranked if rows[number].state is State.COMPLETE]
        return next(iter(complete or ranked), None)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for scripts."""
        plan, best = self.plan, self.best_trial
        rows = self.progress.rows.values()
        counts = {
            state.value: sum(row.state is state and not row.paused for row in rows)
            for state in State
        }
        counts[PAUSED] = sum(row.paused for row in rows)
        return {
            "name": plan.name,
            "kind": plan.kind,
            "task": plan.task,
            "scale": plan.scale,
            "state": self.state,
            "trials": {"planned": plan.trials, "ended": self.progress.ended, **counts},
            "metric": plan.metric,
            "better": plan.better,
            "best": None if best is None else self.progress.rows[best].value,
            "best_trial": best,
            "started": self.started,
            "updated": self.updated,
            "data": {"name": plan.data_name, "sha256": plan.data_sha256},
            "folder": str(plan.folder.absolute()),
        }


def status_of(plan: SweepPlan, running: bool | None = None) -> SweepStatus:
    """The status of one sweep.

    Args:
        running: whether a driver has it; None asks the log, which the driver itself has open.
    """
    path = plan.folder / LOG
    events = [event for event, _ in scan(path)] if path.exists() else []
    times = [event.at / 1000 for event in events if event.at]
    started, updated = (times[0], times[-1]) if times else (None, None)
    running = is_running(plan) if running is None else running
    rows = rows_of(events, plan)
    if not running:
        for row in rows.values():
            row.state = row.state if row.state.ended else State.STOPPED
    before, start = _before_last_start(events)
    seconds = (time.time() if running else updated or 0.0) - start
    results_before = sum(row.results for row in rows_of(before, plan).values())
    progress = Snapshot(plan, rows, seconds if times else 0.0, results_before)
    return SweepStatus(plan, _state(events, running), progress, started, updated)


def all_here() -> tuple[list[SweepStatus], list[UserError]]:
    """All sweeps of this working folder, the one with the latest event first.

    Returns:
        Their statuses, and what is wrong with the plans that cannot be read.
    """
    statuses, errors = [], []
    for name in names_here():
        try:
            statuses.append(status_of(load_plan(name)))
        except UserError as error:
            errors.append(error)
    return sorted(statuses, key=lambda each: each.updated or 0.0, reverse=True), errors


def _state(events: list[Event], running: bool) -> str:
    if running:
        return "paused" if is_paused(events) else "running"
    about_sweep = [each for each in events if isinstance(each, SweepStarted | SweepEnded)]
    match about_sweep[-1:]:
        case [SweepEnded(status=status)]:
            return ENDS[status]
        case [SweepStarted()]:
            return "killed"  # its driver ended without a word; --resume continues it
    return "new"


def _before_last_start(events: list[Event]) -> tuple[list[Event], float]:
    """The events of earlier starts of a sweep, and the time of the last start."""
    starts = [place for place, each in enumerate(events) if isinstance(each, SweepStarted)]
    return (events[: starts[-1]], events[starts[-1]].at / 1000) if starts else ([], 0.0)


def is_running(plan: SweepPlan) -> bool:
    """Whether a driver has the event log of the sweep open."""
    path = plan.folder / LOG
    return path.exists() and _is_locked(path)


def _is_locked(path: Path) -> bool:
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
