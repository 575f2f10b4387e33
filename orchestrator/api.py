"""Sweeps from Python: the same options as the command, and the results as tables."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from orchestrator.comparison import report as comparison_report
from orchestrator.comparison import runs as comparison_runs
from orchestrator.execution.driver import run_sweep
from orchestrator.execution.search import STUDY_FILE
from orchestrator.models.export import offer_champion
from orchestrator.planning.options import parser, plan_from
from orchestrator.planning.plan import ComparisonPlan, SearchPlan, SweepPlan, load_plan
from orchestrator.results import report
from orchestrator.results.records import Records
from orchestrator.tracking.events import Artifact, Event
from tardis_core.config import Config

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sweep:
    """A sweep that has run, or still does: what it has measured so far."""

    plan: SweepPlan
    finished: bool

    @classmethod
    def load(cls, name: str) -> "Sweep":
        """The sweep in `sweeps/NAME`."""
        plan = load_plan(name)
        done = sum(record.ended for record in Records.load(plan).trials.values())
        return cls(plan, done >= plan.trials)

    @property
    def leaderboard(self) -> pd.DataFrame:
        """A row a trial, the best first: state, objective, and every setting."""
        return Records.load(self.plan).table().apply(_as_numbers)

    @property
    def curves(self) -> pd.DataFrame:
        """A row a validation of every trial."""
        return Records.load(self.plan).curves()

    @property
    def best_config(self) -> Config | None:
        """The configuration of the best trial that ran to its end."""
        records = Records.load(self.plan)
        number = records.best_trial()
        return None if number is None else records.trials[number].config()


def _as_numbers(column: pd.Series) -> pd.Series:
    """Settings are recorded as text; where all of them are numbers, here they are numbers."""
    try:
        return pd.to_numeric(column)
    except (TypeError, ValueError):
        return column


def sweep(task: str | None = None, **options: Any) -> Sweep:
    """Run a sweep to its end, or until Ctrl-C.

    Args:
        options: those of `python -m orchestrator.sweep`, with underscores: `trials=8`,
            `scale="smoke"`, `estimators=["gumbel"]`, `set={"memory.cells": 32}`, `resume=NAME`.

    Raises:
        UserError: whatever the command would answer with exit code 2
    """
    chosen = parser().parse_args(words(task, **options))
    plan = plan_from(chosen)
    return Sweep(plan, run_sweep(plan, chosen.address).finished)


def words(task: str | None, **options: Any) -> list[str]:
    """Options as the words of a command line."""
    made = [] if task is None else [task]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, dict):
            made += [word for key, each in value.items() for word in (flag, f"{key}={each}")]
        elif value is True:
            made.append(flag)
        elif isinstance(value, list | tuple):
            made += [flag, ",".join(map(str, value))]
        elif value is not None and value is not False:
            made += [flag, str(value)]
    return made


def conclude(plan: SweepPlan, data: Any, finished: bool) -> list[Event]:
    """Write the report of a sweep into its folder; returns the events to record.

    Args:
        data: of the task, as the trials had it.
        finished: whether all trials have ended; only then a model is offered as champion.
    """
    records = Records.load(plan)
    folder = plan.folder / "report"
    folder.mkdir(exist_ok=True)
    report.write_tables(records, folder)
    others = _write_details(records, folder)
    events: list[Event] = [report.description(records)]
    paths = [*sorted(folder.iterdir()), *others]
    events += [Artifact(None, str(path), "report") for path in paths]
    try:
        events += report.artifacts_of_best_trials(records, data)
        if finished and plan.offers_model:
            events += offer_champion(records, data)
    except OSError as error:  # the measurements are safe all the same
        _log.warning("the weights of the best trials could not be fetched: %s", error)
    return events


def _write_details(records: Records, folder: Path) -> list[Path]:
    """Write what only one kind of sweep has; returns other files that belong to the report."""
    match records.plan:
        case ComparisonPlan():
            comparison = comparison_runs.of_records(records)
            if comparison is not None:
                comparison_report.write(comparison, folder)
            return []
        case SearchPlan() as plan:
            from orchestrator.results import plots  # imports pyplot, which takes a second

            plots.draw_search(records.study(), plan.metric, folder)
            return [plan.folder / STUDY_FILE]
    raise TypeError(f"not a plan: {records.plan}")
