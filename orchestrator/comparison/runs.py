"""What there is to compare: runs in groups, a group a row of the table, whoever recorded them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun
from mlflow.exceptions import MlflowException

from orchestrator.common.redaction import masked
from orchestrator.planning.plan import ComparisonPlan, SearchPlan, SweepPlan, load_plan
from orchestrator.results import records
from orchestrator.results.records import TrialRecord
from orchestrator.tracking.mlflow_store import existing_store
from tardis_core.config import Config
from tardis_core.errors import UserError
from tardis_core.tasks.base import TASKS, Metric


@dataclass(frozen=True)
class Run:
    """One training that ran to its end, or as far as a search let it."""

    name: str  # where it is recorded
    config: Config
    valid: float  # the best validation
    test: float | None  # of the weights with the best validation
    curve: pd.DataFrame  # step, seconds, value: a row a validation

    def value(self, split: str) -> float:
        """What is compared."""
        measured = self.valid if split == "valid" else self.test
        assert measured is not None, "a split is chosen that all runs have"
        return measured


@dataclass(frozen=True)
class Group:
    """The runs of one row: of a comparison one for each seed, of a search one for each trial."""

    label: str
    runs: tuple[Run, ...]
    searched: bool = False

    @property
    def config(self) -> Config:
        """Of the first run; in a comparison the others differ from it in the seed alone."""
        return self.runs[0].config


@dataclass(frozen=True)
class ComparisonData:
    """Groups that may be compared: of one task, measured on the same data."""

    task: str
    groups: tuple[Group, ...]
    data: str  # its name
    real: bool
    made_by: tuple[str, ...]  # commands
    made_with: dict[str, str] = field(default_factory=dict)  # versions, hardware

    @property
    def metric(self) -> Metric:
        """What the task is judged by."""
        return TASKS.get(self.task).metric

    @property
    def split(self) -> str:
        """The test split if every run was measured on it; a search is only ever validated."""
        runs = [run for group in self.groups for run in group.runs]
        return "test" if all(run.test is not None for run in runs) else "valid"

    @property
    def scales(self) -> str:
        """The scales of the runs; more than one is worth a warning."""
        return ", ".join(sorted({run.config.scale for g in self.groups for run in g.runs}))


def of_sweeps(names: Sequence[str]) -> ComparisonData:
    """Of comparisons their candidates; of searches a group for each model and estimator."""
    plans = [load_plan(name) for name in names]
    groups: list[Group] = []
    for plan in plans:
        groups += _told_apart(_groups(plan), plan, plans)
    facts = [records.sweep_tags(plan) for plan in plans]
    command = f"python -m orchestrator.compare --sweeps {','.join(names)}"
    return _checked([plan.task for plan in plans], groups, facts, (command,))


def _groups(plan: SweepPlan) -> list[Group]:
    match plan:
        case ComparisonPlan():
            return _of_comparison(plan)
        case SearchPlan():
            return _of_search(plan)
    raise TypeError(f"not a plan: {plan}")


def of_plan(plan: ComparisonPlan) -> ComparisonData | None:
    """Of a comparison; None if no trial has run to its end."""
    groups = _of_comparison(plan)
    if not groups:
        return None
    command = f"python -m orchestrator.compare --sweeps {plan.name}"
    return _checked([plan.task], groups, [records.sweep_tags(plan)], (command,))


def _of_comparison(plan: ComparisonPlan) -> list[Group]:
    made = []
    trials = list(records.read(plan).values())
    for candidate in plan.candidates:
        runs = [
            _run(record, plan)
            for record in trials
            if record.state == "complete" and plan.candidate_of(record.number) == candidate
        ]
        if runs:
            made.append(Group(candidate.label, tuple(sorted(runs, key=lambda r: r.config.seed))))
    return made


def _told_apart(groups: list[Group], plan: SweepPlan, plans: Sequence[SweepPlan]) -> list[Group]:
    """With the name of the sweep before what another one may call the same."""
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


def _of_search(plan: SearchPlan) -> list[Group]:
    """Every trial that was validated counts, pruned or not: it was paid for."""
    found: dict[str, list[Run]] = {}
    for record in records.read(plan).values():
        if record.best_row(plan.metric, plan.better):
            found.setdefault(record.config().system, []).append(_run(record, plan))
    return [Group(label, tuple(runs), searched=True) for label, runs in found.items()]


def _run(record: TrialRecord, plan: SweepPlan) -> Run:
    best = record.best_row(plan.metric, plan.better)
    assert best is not None
    tests = [row[f"test_{plan.metric}"] for row in record.rows if f"test_{plan.metric}" in row]
    curve = pd.DataFrame(
        {
            "step": [row["step"] for row in record.rows],
            "seconds": [row.get("training_seconds") for row in record.rows],
            "value": [row.get(f"valid_{plan.metric}") for row in record.rows],
        }
    )
    return Run(
        f"{plan.name}, trial {record.number}",
        record.config(),
        best[f"valid_{plan.metric}"],
        tests[-1] if tests else None,
        curve,
    )


def of_runs(ids: Sequence[str], tracking_uri: str) -> ComparisonData:
    """Of runs in MLflow: those that differ in nothing but the seed make a group."""
    client = existing_store(tracking_uri)
    runs = [_fetch(client, each, tracking_uri) for each in ids]
    tasks = [run.data.params["task"] for run in runs]
    _check_task(tasks)
    groups: dict[str, list[Run]] = {}
    for run in runs:
        config = TrialRecord(0, dict(run.data.params)).config()
        made = _from_mlflow(client, run, config)
        key = repr({**config.to_dict(), "seed": None})
        groups.setdefault(key, []).append(made)
    labelled = _label([tuple(found) for found in groups.values()])
    parents = [client.get_run(run.data.tags["mlflow.parentRunId"]) for run in runs]
    facts = [dict(parent.data.tags) for parent in parents]
    command = f"python -m orchestrator.compare --runs {','.join(ids)}"
    return _checked(tasks, labelled, facts, (command,))


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
    return run


def _from_mlflow(client: MlflowClient, run: MlflowRun, config: Config) -> Run:
    metric = TASKS.get(config.task).metric

    def history(name: str) -> dict[int, float]:
        return {each.step: each.value for each in client.get_metric_history(run.info.run_id, name)}

    values, seconds = history(f"valid_{metric.name}"), history("training_seconds")
    known = [value for value in values.values() if value == value]
    if not known:
        raise UserError(f"run {run.info.run_id} has no validation yet; wait, or leave it out")
    steps = sorted(values)
    curve = pd.DataFrame(
        {
            "step": steps,
            "seconds": [seconds.get(step) for step in steps],
            "value": [values[step] for step in steps],
        }
    )
    best = min(known) if metric.better == "lower" else max(known)
    test = run.data.metrics.get(f"test_{metric.name}")
    return Run(f"run {run.info.run_id}", config, best, test, curve)


def _label(groups: Iterable[tuple[Run, ...]]) -> list[Group]:
    """Model and estimator, and where that is not enough, the settings that differ."""
    found = list(groups)
    settings = [runs[0].config.settings() for runs in found]
    made = []
    for runs, own in zip(found, settings, strict=True):
        system = runs[0].config.system
        alike = [
            theirs
            for others, theirs in zip(found, settings, strict=True)
            if others[0].config.system == system
        ]
        differing = sorted({k for theirs in alike for k in theirs if theirs[k] != own[k]})
        words = [system, *(f"{key}={own[key]}" for key in differing)]
        made.append(Group(" ".join(words), runs))
    return made


def _check_task(tasks: Sequence[str]) -> None:
    if len(set(tasks)) > 1:
        names = ", ".join(sorted(set(tasks)))
        raise UserError(f"only runs of one task can be compared, not of {names}")


def _checked(
    tasks: Sequence[str],
    groups: Sequence[Group],
    facts: Sequence[dict[str, str]],
    commands: tuple[str, ...],
) -> ComparisonData:
    """Refuse what cannot be compared."""
    _check_task(tasks)
    if not groups:
        raise UserError("there is no run to compare: none of them has been validated to its end")
    data = {(fact.get("data"), fact.get("data.sha256")) for fact in facts}
    if len(data) > 1:
        names = " and ".join(sorted(f"{name} ({str(sha)[:12]})" for name, sha in data))
        raise UserError(f"only runs on the same data can be compared, not on {names}")
    kept = {
        key: value
        for key, value in facts[0].items()
        if key.startswith("version.") or key in ("hardware", "git_commit")
    }
    first = facts[0]
    return ComparisonData(
        tasks[0],
        tuple(groups),
        str(first.get("data", "unknown")),
        first.get("data.real") == "True",
        commands,
        kept,
    )
