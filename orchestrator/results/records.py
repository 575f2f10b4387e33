"""What a sweep has measured, read from its event log; also while the sweep runs."""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from orchestrator.planning.plan import SweepPlan
from orchestrator.tracking.event_log import LOG, scan
from orchestrator.tracking.events import Metrics, SweepStarted, SweepTags, TrialEnded, TrialStarted
from tardis_core.config import Config, make_config

# The columns of a table of trials; those of the settings follow.
HOW_IT_WENT = ("number", "state", "objective", "step", "validations", "seconds")
NAMES = ("task", "model", "estimator", "scale", "seed")  # parameters that are no settings


@dataclass
class TrialRecord:
    """One trial: what it was, how it ended, and a row a validation."""

    number: int
    params: dict[str, str] = field(default_factory=dict)
    state: str = "running"  # complete, pruned, failed, stopped or running
    tags: dict[str, str] = field(default_factory=dict)
    rows: list[dict[str, float]] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to do for it."""
        return self.state in ("complete", "pruned", "failed")

    def best_row(self, metric: str, better: str) -> dict[str, float] | None:
        """The validation with the best value of the metric."""
        key = f"valid_{metric}"
        seen = [row for row in self.rows if row.get(key) is not None and row[key] == row[key]]
        pick = min if better == "lower" else max
        return pick(seen, key=lambda row: row[key]) if seen else None

    def settings(self) -> dict[str, str]:
        """All that made it what it is but for the seed, in the shape of a search space's result."""
        common = ("task", "scale", "seed")
        return {key: value for key, value in self.params.items() if key not in common}

    def config(self) -> Config:
        """The configuration that the trial ran with."""
        task, model, estimator, scale, seed = (self.params[name] for name in NAMES)
        settings = {key: value for key, value in self.params.items() if key not in NAMES}
        return make_config(task, model, estimator, scale, int(seed), settings)


def read(plan: SweepPlan) -> dict[int, TrialRecord]:
    """Every trial of the sweep by its number."""
    made: dict[int, TrialRecord] = {}
    path = plan.folder / LOG
    for event, _ in scan(path) if path.exists() else ():
        match event:
            case TrialStarted(number=number):
                trial = made.setdefault(number, TrialRecord(number))
                trial.params = dict(event.params) or trial.params
                trial.state, trial.tags = "running", {**trial.tags, **event.tags}
            case Metrics(number=number):
                trial = made.setdefault(number, TrialRecord(number))
                _add(trial, event)
            case TrialEnded(number=number):
                trial = made.setdefault(number, TrialRecord(number))
                trial.state = _state(event)
                trial.tags |= event.tags
    return made


def sweep_tags(plan: SweepPlan) -> dict[str, str]:
    """What was recorded of the sweep as a whole: data, versions, hardware."""
    tags: dict[str, str] = {}
    path = plan.folder / LOG
    for event, _ in scan(path) if path.exists() else ():
        if isinstance(event, SweepStarted | SweepTags):
            tags |= event.tags
    return tags


def _add(trial: TrialRecord, event: Metrics) -> None:
    if trial.rows and trial.rows[-1]["step"] == event.step:
        trial.rows[-1] |= event.values
    else:
        trial.rows.append({"step": event.step, **event.values})


def _state(event: TrialEnded) -> str:
    if event.status == "KILLED":
        return "pruned" if "pruned" in event.tags else "stopped"
    return {"FINISHED": "complete", "FAILED": "failed"}[event.status]


def trials(plan: SweepPlan) -> pd.DataFrame:
    """One row a trial: how it went, and every setting that it had."""
    rows = [_row(trial, plan) for trial in read(plan).values()]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=list(HOW_IT_WENT))


def _row(trial: TrialRecord, plan: SweepPlan) -> dict[str, Any]:
    best = trial.best_row(plan.metric, plan.better) or {}
    last = trial.rows[-1] if trial.rows else {}
    return {
        "number": trial.number,
        "state": trial.state,
        "objective": best.get(f"valid_{plan.metric}"),
        "step": best.get("step"),
        "validations": len(trial.rows),
        "seconds": last.get("training_seconds"),
        **trial.params,
    }


def curves(plan: SweepPlan) -> pd.DataFrame:
    """One row a validation of every trial."""
    rows = [{"number": each.number, **row} for each in read(plan).values() for row in each.rows]
    return pd.DataFrame(rows)
