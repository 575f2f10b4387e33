"""Sweeps from Python: the same options as the command, and the results as tables."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from orchestrator.execution import driver
from orchestrator.execution.driver import Outcome
from orchestrator.planning.options import parser, plan_from
from orchestrator.planning.plan import SweepPlan, load_plan
from orchestrator.results import leaderboard, records, report
from tardis_core.config import Config


def run_sweep(plan: SweepPlan, address: str | None = None) -> Outcome:
    """Run a sweep and write its report."""
    return driver.run_sweep(plan, address, partial(report.write, plan))


@dataclass(frozen=True)
class Sweep:
    """A sweep that has run, or still does: what it has measured so far."""

    plan: SweepPlan
    finished: bool

    @classmethod
    def load(cls, name: str) -> "Sweep":
        """The sweep in `sweeps/NAME`."""
        plan = load_plan(name)
        done = sum(record.ended for record in records.read(plan).values())
        return cls(plan, done >= plan.trials)

    @property
    def leaderboard(self) -> pd.DataFrame:
        """A row a trial, the best first: state, objective, and every setting."""
        return leaderboard.table(self.plan).apply(_as_numbers)

    @property
    def curves(self) -> pd.DataFrame:
        """A row a validation of every trial."""
        return records.curves(self.plan)

    @property
    def best_config(self) -> Config | None:
        """The configuration of the best trial that ran to its end."""
        number = report.best_trial(self.plan)
        return None if number is None else records.read(self.plan)[number].config()


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
