"""The runs to compare, in groups: one group per row of the table, from sweeps or from MLflow."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun
from mlflow.exceptions import MlflowException

from orchestrator.common.redaction import masked
from orchestrator.planning.plan import (
    Candidate,
    ComparisonPlan,
    SearchPlan,
    SweepPlan,
    load_plan,
)
from orchestrator.results import headline
from orchestrator.results.records import Records, TrialRecord
from orchestrator.tracking.mlflow_store import existing_store
from orchestrator.tracking.states import STATE_TAG, State
from tardis_core.config import Config
from tardis_core.errors import UserError
from tardis_core.tasks.base import TASKS, Metric
from tardis_core.training.best import best_row, phase_start


@dataclass(frozen=True)
class Run:
    """One training run that finished, or went as far as a search let it."""

    name: str  # where it is recorded
    config: Config
    valid: float  # the best validation
    test: float | None  # of the weights with the best validation
    curve: pd.DataFrame  # step, seconds, value: one row per validation

    def value(self, split: str) -> float:
        """The metric on a split that every run was measured on."""
        value = self.valid if split == "valid" else self.test
        assert value is not None, "the split is one that all runs have"
        return value


@dataclass(frozen=True)
class Group:
    """The runs of one row: one per seed in a comparison, one per trial in a search."""

    label: str
    runs: tuple[Run, ...]
    searched: bool = False
    failed: int = 0  # seeds that have no result because their run failed

    @property
    def config(self) -> Config:
        """The configuration of the first run; in a comparison the others differ in the seed."""
        return self.runs[0].config


@dataclass(frozen=True)
class ComparisonData:
    """Groups that may be compared: of one task, measured on the same data."""

    task: str
    groups: tuple[Group, ...]
    data: str  # its name
    real: bool
    commands: tuple[str, ...]  # that make the comparison again
    facts: dict[str, str] = field(default_factory=dict)  # command, time, data, hardware, versions

    @property
    def metric(self) -> Metric:
        """The metric of the task."""
        return TASKS.get(self.task).metric

    @property
    def split(self) -> str:
        """The split whose results are reported: test if every run has it, else valid."""
        runs = [run for group in self.groups for run in group.runs]
        return "test" if all(run.test is not None for run in runs) else "valid"

    @property
    def scales(self) -> str:
        """The scales of the runs, which are usually one."""
        return ", ".join(sorted({run.config.scale for g in self.groups for run in g.runs}))


def of_sweeps(names: Sequence[str]) -> ComparisonData:
    """The candidates of comparisons, and one group per model and estimator of searches."""
    every = [Records.load(load_plan(name)) for name in names]
    plans = [records.plan for records in every]
    groups: list[Group] = []
    for records in every:
        groups += _distinguished(_groups(records), records.plan, plans)
    command = f"python -m orchestrator.compare --sweeps {','.join(names)}"
    tags = [records.tags for records in every]
    return _checked([plan.task for plan in plans], groups, tags, (command,))


def _groups(records: Records) -> list[Group]:
    match records.plan:
        case ComparisonPlan() as plan:
            return _of_comparison(records, plan)
        case SearchPlan():
            return _of_search(records)
    raise TypeError(f"not a plan: {records.plan}")


def of_records(records: Records) -> ComparisonData | None:
    """The candidates of one comparison; None if none of its trials is complete."""
    groups = _groups(records)
    if not groups:
        return None
    command = f"python -m orchestrator.compare --sweeps {records.plan.name}"
    typed = records.commands[0] if records.commands else ""
    facts = headline.facts(records.tags, typed, records.started, records.last)
    checked = _checked([records.plan.task], groups, [records.tags], (command,))
    return replace(checked, facts=facts)


def _of_comparison(records: Records, plan: ComparisonPlan) -> list[Group]:
    groups = [_candidate_group(records, plan, candidate) for candidate in plan.candidates]
    return [group for group in groups if group.runs]


def _candidate_group(records: Records, plan: ComparisonPlan, candidate: Candidate) -> Group:
    trials = [
        trial for number, trial in records.trials.items() if plan.candidate_of(number) == candidate
    ]
    runs = [_run(trial, plan) for trial in trials if trial.state == "complete"]
    failed = sum(trial.state == "failed" for trial in trials)
    ordered = tuple(sorted(runs, key=lambda run: run.config.seed))
    return Group(candidate.label, ordered, failed=failed)


def _distinguished(groups: list[Group], plan: SweepPlan, plans: Sequence[SweepPlan]) -> list[Group]:
    """The groups, with the name of the sweep in labels that another sweep may have too."""
    others = {
        each.label
        for other in plans
        if other is not plan and isinstance(other, ComparisonPlan)
        for each in other.candidates
    }
    return [
        replace(group, label=f"{plan.name}: {group.label}")
        if group.label in others or (group.searched and len(plans) > 1)
        else group
        for group in groups
    ]


def _of_search(records: Records) -> list[Group]:
    """Groups of all trials that were validated, pruned or not: all of them used the budget."""
    runs: dict[str, list[Run]] = {}
    for number, trial in records.trials.items():
        if records.objective(number) is not None:
            runs.setdefault(trial.config().system, []).append(_run(trial, records.plan))
    return [Group(label, tuple(each), searched=True) for label, each in runs.items()]


def _run(trial: TrialRecord, plan: SweepPlan) -> Run:
    best = trial.best_row(plan.metric, plan.better)
    assert best is not None
    tests = [row[f"test_{plan.metric}"] for row in trial.rows if f"test_{plan.metric}" in row]
    curve = pd.DataFrame(
        {
            "step": [row["step"] for row in trial.rows],
            "seconds": [row.get("training_seconds") for row in trial.rows],
            "value": [row.get(f"valid_{plan.metric}") for row in trial.rows],
        }
    )
    return Run(
        f"{plan.name}, trial {trial.number}",
        trial.config(),
        best[f"valid_{plan.metric}"],
        tests[-1] if tests else None,
        curve,
    )


def of_runs(ids: Sequence[str], tracking_uri: str) -> ComparisonData:
    """Runs in MLflow; those that differ in nothing but the seed form a group."""
    client = existing_store(tracking_uri)
    runs = [_fetch(client, each, tracking_uri) for each in ids]
    tasks = [run.data.params["task"] for run in runs]
    _check_task(tasks)
    groups: dict[str, list[Run]] = {}
    for run in runs:
        config = TrialRecord(0, dict(run.data.params)).config()
        key = repr({**config.to_dict(), "seed": None})
        groups.setdefault(key, []).append(_from_mlflow(client, run, config))
    labelled = _label([tuple(each) for each in groups.values()])
    parents = [client.get_run(run.data.tags["mlflow.parentRunId"]) for run in runs]
    tags = [dict(parent.data.tags) for parent in parents]
    command = f"python -m orchestrator.compare --runs {','.join(ids)}"
    return _checked(tasks, labelled, tags, (command,))


def _fetch(client: MlflowClient, run_id: str, uri: str) -> MlflowRun:
    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        raise UserError(
            f"there is no run {run_id!r} in {masked(uri)}; copy the id of a trial from the UI, or "
            "choose another store with --tracking-uri"
        ) from error
    if "mlflow.parentRunId" not in run.data.tags or "model" not in run.data.params:
        raise UserError(
            f"run {run_id} is not a trial; give the runs of trials, or whole sweeps with --sweeps"
        )
    state = run.data.tags.get(STATE_TAG, State.COMPLETE)
    if state not in (State.COMPLETE, State.PRUNED):
        raise UserError(
            f"a run must be complete or pruned to be compared, and run {run_id} is {state}; leave "
            "it out, or resume its sweep"
        )
    return run


def _from_mlflow(client: MlflowClient, run: MlflowRun, config: Config) -> Run:
    metric = TASKS.get(config.task).metric

    def history(name: str) -> dict[int, float]:
        return {each.step: each.value for each in client.get_metric_history(run.info.run_id, name)}

    values, seconds = history(f"valid_{metric.name}"), history("training_seconds")
    steps = sorted(values)
    rows = [{"update": step, "value": values[step]} for step in steps]
    best = best_row(rows, "value", metric.better, phase_start(config.settings()))
    if best is None:
        raise UserError(f"run {run.info.run_id} has no validation yet; wait, or leave it out")
    curve = pd.DataFrame(
        {
            "step": steps,
            "seconds": [seconds.get(step) for step in steps],
            "value": [values[step] for step in steps],
        }
    )
    test = run.data.metrics.get(f"test_{metric.name}")
    return Run(f"run {run.info.run_id}", config, best["value"], test, curve)


def _label(groups: Sequence[tuple[Run, ...]]) -> list[Group]:
    """Label groups by model and estimator, and where that is not unique, by settings as well."""
    labelled = []
    for runs in groups:
        config = runs[0].config
        settings = config.settings()
        others = [other[0].config for other in groups if other[0].config.system == config.system]
        differing = sorted(
            {
                key
                for other in others
                for key, value in other.settings().items()
                if value != settings[key]
            }
        )
        words = [config.system, *(f"{key}={settings[key]}" for key in differing)]
        labelled.append(Group(" ".join(words), runs))
    return labelled


def _check_task(tasks: Sequence[str]) -> None:
    if len(set(tasks)) > 1:
        names = ", ".join(sorted(set(tasks)))
        raise UserError(f"only runs of one task can be compared, not of {names}")


def _checked(
    tasks: Sequence[str],
    groups: Sequence[Group],
    tags: Sequence[dict[str, str]],
    commands: tuple[str, ...],
) -> ComparisonData:
    """The groups as data of a comparison; runs that cannot be compared are refused."""
    _check_task(tasks)
    if not groups:
        raise UserError("there is no run to compare: no trial is complete")
    data = {(each.get("data"), each.get("data.sha256")) for each in tags}
    if len(data) > 1:
        names = " and ".join(sorted(f"{name} ({str(sha)[:12]})" for name, sha in data))
        raise UserError(f"only runs on the same data can be compared, not on {names}")
    first = tags[0]
    return ComparisonData(
        tasks[0],
        tuple(groups),
        str(first.get("data", "unknown")),
        first.get("data.real") == "True",
        commands,
        headline.facts(first, commands[0]),
    )
