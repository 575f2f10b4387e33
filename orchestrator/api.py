"""Sweeps and comparisons from Python: the options of the commands, the results as tables."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd
from ray import tune

from orchestrator import sweep_session
from orchestrator.common.defaults import default_tracking_uri
from orchestrator.comparison import runs as comparison_runs
from orchestrator.comparison import tables
from orchestrator.execution.status import status_of
from orchestrator.models import lookup
from orchestrator.planning import function_space
from orchestrator.planning.arguments import names, seconds
from orchestrator.planning.options import OURS, ComparisonOptions, SearchOptions
from orchestrator.planning.placement import AUTO
from orchestrator.planning.plan import ComparisonPlan, SweepPlan, load_plan
from orchestrator.results import failures, leaderboard
from orchestrator.results.records import Records
from orchestrator.tracking.single_run import RunTracker
from tardis_core import plugins, train_session
from tardis_core.config import Config
from tardis_core.errors import UserError
from tardis_core.models.network import Network
from tardis_core.paper import PAPER_ESTIMATORS
from tardis_core.train_session import Observer, TrainingRun, TrainOptions

SHOWN_IN_NOTEBOOKS = 10  # trials


@dataclass(frozen=True, repr=False)
class Sweep:
    """A sweep that has run, or is running: what it has measured so far."""

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
        """One row per trial, the best first: state, objective, and every setting."""
        return Records.load(self.plan).table().apply(_as_numbers)

    @property
    def curves(self) -> pd.DataFrame:
        """One row per validation of every trial."""
        return Records.load(self.plan).curves()

    @property
    def best_config(self) -> Config | None:
        """The configuration of the best trial that ran to its end."""
        records = Records.load(self.plan)
        number = records.best_trial()
        return None if number is None else records.trials[number].config()

    @property
    def failures(self) -> dict[str, list[int]]:
        """The failed trials by reason."""
        return failures.reasons(Records.load(self.plan))

    @property
    def comparison(self) -> pd.DataFrame | None:
        """One row per candidate of a comparison, the best first; None before its first result."""
        if not isinstance(self.plan, ComparisonPlan):
            raise UserError(f"{self.plan.name} is a search; its results are in its leaderboard")
        compared = comparison_runs.of_records(Records.load(self.plan))
        return None if compared is None else tables.summary(compared)

    def best_model(self, device: str = "auto") -> Network:
        """The network of the best trial with its trained weights."""
        return lookup.find(self.plan.name, self.plan.tracking_uri).network(device)

    def resume(self, address: str | None = None) -> "Sweep":
        """Continue the sweep if it was stopped; returns it as it is then."""
        function = compare if isinstance(self.plan, ComparisonPlan) else sweep
        return function(resume=self.plan.name, address=address)

    def extend(
        self, trials: int | None = None, address: str | None = None, *, updates: int | str = ""
    ) -> "Sweep":
        """Add trials to a finished search, or train its trials longer; returns it as it is then."""
        return sweep(extend=self.plan.name, trials=trials, updates=updates, address=address)

    def __repr__(self) -> str:
        status = status_of(self.plan)
        return (
            f"<Sweep {self.plan.name}: {self.plan.size}, scale {self.plan.scale}, {status.state}; "
            f"{status.progress.counts()}; {status.progress.best()}>"
        )

    def _repr_html_(self) -> str:
        """The leaders as a table, for notebooks."""
        shown = leaderboard.leading(Records.load(self.plan), SHOWN_IN_NOTEBOOKS)
        return f"<p>{escape(repr(self)[1:-1])}</p>{shown.to_html(index=False, na_rep='')}"


def _as_numbers(column: pd.Series) -> pd.Series:
    """Settings are recorded as text; a column in which all are numbers becomes numeric."""
    try:
        return pd.to_numeric(column)
    except (TypeError, ValueError):
        return column


def sweep(
    task: str = "",
    *,
    name: str = "",
    resume: str = "",
    extend: str = "",
    trials: int | None = None,
    updates: int | str = "",
    time_budget: float | str = 0.0,
    scale: str = "",
    models: Sequence[str] = ("tardis",),
    estimators: Sequence[str] = (),
    space: str | Callable[..., dict[str, Any]] | None = None,
    sampler: str = "tpe",
    scheduler: str = "asha",
    set: Mapping[str, Any] | None = None,
    seed: int = 0,
    seeds_per_trial: int = 1,
    aggregate: str = "worst",
    race: bool = False,
    grace: float = 1 / 9,
    confirm_seeds: int = 0,
    warm_start: str = "",
    constraints: str | Sequence[str] = (),
    objectives: str | Sequence[str] = (),
    cpus_per_trial: float | None = None,
    gpus_per_trial: float | str = AUTO,
    retry_smaller_batch: bool = False,
    concurrency: int = 0,
    autoscale: bool = False,
    address: str | None = None,
    storage: str = "",
    tracking_uri: str = "",
    data_dir: str | None = None,
    data: str = "auto",
    plugin: str | Sequence[str] = (),
    on_end: str = "",
    callbacks: Sequence[tune.Callback] = (),
    dry_run: bool = False,
) -> Sweep:
    """Run a search to its end or until Ctrl-C, and its confirmation if `confirm_seeds` are given.

    The options are those of `python -m orchestrator.sweep --help`.

    Args:
        updates: with `extend`: continue complete trials to this number, or "x2" doubles it.
        time_budget: seconds, or a text such as "30m".
        set: settings of every trial, such as `{"memory.cells": 32}`.
        space: a file, or a function `space(trial)` or `space(trial, scale, estimators)` that
            imports what it needs itself; it returns settings by name.
        plugin: files that register models, tasks or estimators of your own.
        callbacks: of Ray Tune, called while the trials run.
        dry_run: only print the plan.

    Returns:
        The search; its confirmation is `Sweep.load(f"{name}-seeds")`.

    Raises:
        UserError: whatever the command would answer with exit code 2.
    """
    files = _requested(plugin)
    plan = sweep_session.plan_for(
        SearchOptions(
            task=task,
            name=name,
            resume=resume,
            extend=extend,
            trials=trials,
            updates=str(updates),
            time_budget=_seconds(time_budget),
            scale=scale,
            models=_tuple(models),
            estimators=_tuple(estimators) or PAPER_ESTIMATORS,
            space=function_space.as_file(space) if callable(space) else space,
            plugin=files,
            sampler=sampler,
            scheduler=scheduler,
            set=set or {},
            seed=seed,
            seeds_per_trial=seeds_per_trial,
            aggregate=aggregate,
            race=race,
            grace=grace,
            confirm_seeds=confirm_seeds,
            warm_start=warm_start,
            constraint=_tuple(constraints),
            objectives=_tuple(objectives),
            cpus_per_trial=cpus_per_trial,
            gpus_per_trial=gpus_per_trial,
            retry_smaller_batch=retry_smaller_batch,
            concurrency=concurrency,
            autoscale=autoscale,
            address=address,
            storage=storage,
            tracking_uri=tracking_uri,
            data_dir=data_dir,
            data=data,
            on_end=on_end,
        )
    )
    if dry_run:
        print(sweep_session.describe(plan, address))
        return Sweep(plan, finished=False)
    outcome = sweep_session.run(plan, address, callbacks=callbacks)
    begun = sweep_session.as_begun(plan)
    if outcome.finished and (again := sweep_session.confirmation_of(Records.load(begun))):
        sweep_session.run(again, address, callbacks=callbacks)
    return Sweep(begun, outcome.finished)


def compare(
    task: str = "",
    *,
    name: str = "",
    resume: str = "",
    seeds: int = 3,
    models: Sequence[str] = OURS,
    candidates: Sequence[str] = (),
    parameters: int | None = None,
    scale: str = "",
    set: Mapping[str, Any] | None = None,
    seed: int = 0,
    cpus_per_trial: float | None = None,
    gpus_per_trial: float | str = AUTO,
    retry_smaller_batch: bool = False,
    concurrency: int = 0,
    autoscale: bool = False,
    address: str | None = None,
    storage: str = "",
    tracking_uri: str = "",
    data_dir: str | None = None,
    data: str = "auto",
    plugin: str | Sequence[str] = (),
    on_end: str = "",
    callbacks: Sequence[tune.Callback] = (),
    dry_run: bool = False,
) -> Sweep:
    """Train candidates with several seeds, to the end or until Ctrl-C.

    The options are those of `python -m orchestrator.compare --help`.

    Args:
        candidates: texts such as "tardis:gumbel,memory.cells=8"; none: the paper's rows.

    Raises:
        UserError: whatever the command would answer with exit code 2.
    """
    files = _requested(plugin)
    plan = sweep_session.plan_for(
        ComparisonOptions(
            plugin=files,
            task=task,
            name=name,
            resume=resume,
            seeds=seeds,
            models=_tuple(models),
            candidate=tuple(candidates),
            parameters=parameters,
            scale=scale,
            set=set or {},
            seed=seed,
            cpus_per_trial=cpus_per_trial,
            gpus_per_trial=gpus_per_trial,
            retry_smaller_batch=retry_smaller_batch,
            concurrency=concurrency,
            autoscale=autoscale,
            address=address,
            storage=storage,
            tracking_uri=tracking_uri,
            data_dir=data_dir,
            data=data,
            on_end=on_end,
        )
    )
    if dry_run:
        print(sweep_session.describe(plan, address))
        return Sweep(plan, finished=False)
    finished = sweep_session.run(plan, address, callbacks=callbacks).finished
    return Sweep(sweep_session.as_begun(plan), finished)


def train(
    task: str | None = None,
    *,
    model: str | None = None,
    estimator: str | None = None,
    scale: str | None = None,
    set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    out: str | None = None,
    resume: str | None = None,
    tensorboard: bool = False,
    track: bool = False,
    tracking_uri: str = "",
    device: str = "auto",
    data_dir: str | None = None,
    data: str = "auto",
    plugin: str | Sequence[str] = (),
    callbacks: Sequence[Observer] = (),
) -> TrainingRun:
    """Train one model, or resume its run.

    The options are those of `tardis train --help`.

    Args:
        callbacks: objects with the methods of `tardis_core.train_session.Observer`.

    Returns:
        The folder of the run, its configuration, and its result, which is None if it was stopped.

    Raises:
        UserError: whatever the command would answer with exit code 2.
        Diverged: if the loss or a gradient is not a finite number.
    """
    _requested(plugin)
    tracker = [RunTracker(tracking_uri or default_tracking_uri())] if track or tracking_uri else []
    return train_session.train(
        TrainOptions(
            task=task,
            model=model,
            estimator=estimator,
            scale=scale,
            set=set or {},
            seed=seed,
            out=out,
            resume=resume,
            tensorboard=tensorboard,
            device=device,
            data_dir=data_dir,
            data=data,
        ),
        [*tracker, *callbacks],
    )


def _requested(plugin: str | Sequence[str]) -> tuple[str, ...]:
    """The files of plugins, whose parts can be named from now on."""
    files = (plugin,) if isinstance(plugin, str) else tuple(plugin)
    for path in files:
        plugins.request(path)
    return files


def _seconds(duration: float | str) -> float:
    try:
        return seconds(duration) if isinstance(duration, str) else duration
    except argparse.ArgumentTypeError as error:
        raise UserError(f"time_budget {error}") from error


def _tuple(values: Sequence[str]) -> tuple[str, ...]:
    """Names, which may also be given as one text with commas."""
    return names(values) if isinstance(values, str) else tuple(values)
