"""Find a trained model by any name a person has for it, and record results to its run.

RUN is the folder of a run of tardis_core.train, a checkpoint file, the name of a sweep (its best
trial), or the id of an MLflow run that has its weights among its artifacts.
"""

import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from mlflow import MlflowClient
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException

from orchestrator.common.defaults import default_tracking_uri
from orchestrator.common.redaction import masked
from orchestrator.execution.checkpoints import fetch_best
from orchestrator.planning.plan import PLAN_FILE, SWEEPS_DIR, SweepPlan, load_plan, names_here
from orchestrator.results.records import Records
from orchestrator.tracking.mlflow_runs import SWEEP, TRIAL, clean_name, run_of_trial
from orchestrator.tracking.mlflow_store import existing_store, reason
from tardis_core.errors import UserError
from tardis_core.evaluation import BEST, TrainedModel, load_model
from tardis_core.tasks.base import Task

RUN_ID = re.compile(r"[0-9a-f]{32}")
CHECKPOINT = f"checkpoint/{BEST}"  # among the artifacts of a run


class RunAddress(NamedTuple):
    """A run in a tracking store."""

    tracking_uri: str
    run_id: str


@dataclass(frozen=True)
class RecordedModel(TrainedModel):
    """A trained model, and where results about it belong."""

    folder: Path  # for results
    recorded: RunAddress | None = None
    # Where a sweep has its data from, and of which kind: the same again unless others are named.
    data_dir: str | None = None
    data: str = "auto"

    def task(self, data_dir: str | None = None, data: str = "auto") -> Task:
        """The task on the data that the run was trained on; other data is refused."""
        return super().task(data_dir or self.data_dir, self.data if data == "auto" else data)


def find(run: str, tracking_uri: str) -> RecordedModel:
    """The trained model that `run` names.

    Args:
        tracking_uri: of the store to look up a run id in; empty: the default store.
    """
    path = Path(run)
    if os.path.isfile(path / BEST):  # of a text that no path can be, too
        return _load(path / BEST, path)
    if os.path.isfile(path):
        return _load(path, path.with_suffix(""))
    name = path.name if path.parent == SWEEPS_DIR else run  # sweeps/NAME, as the shell completes it
    if os.path.isfile(SWEEPS_DIR / name / PLAN_FILE):
        return _of_sweep(load_plan(name))
    if RUN_ID.fullmatch(run):
        return _of_mlflow(run, tracking_uri or default_tracking_uri())
    raise UserError(
        f"RUN must be the folder of a run with its {BEST}, a checkpoint file, the id of an MLflow "
        f"run, or a sweep ({', '.join(names_here()) or 'none here'}), not {run[:200]!r}"
    )


def _load(weights: Path, folder: Path, recorded: RunAddress | None = None) -> RecordedModel:
    model = load_model(weights)
    return RecordedModel(model.source, model.values, model.config, folder, recorded)


def _of_sweep(plan: SweepPlan) -> RecordedModel:
    """The best trial of a sweep: its weights from Ray, or the copy that the sweep keeps."""
    numbers = Records.load(plan).best_trials()
    if not numbers:
        raise UserError(f"no trial of the sweep {plan.name!r} is complete yet")
    for number in numbers:
        if (weights := _weights(plan, number)) is None:
            continue
        if number != numbers[0]:
            print(
                f"the weights of trial {numbers[0]}, the best, are lost or damaged; this is "
                f"trial {number}, the next",
                file=sys.stderr,
            )
        model = _load(weights, weights.parent, _recorded(plan, number))
        return replace(model, data_dir=plan.data_dir, data=plan.data)
    raise UserError(
        f"the weights of the sweep {plan.name!r} are lost or damaged, both in "
        f"{masked(plan.ray_storage)} and in {plan.folder / 'best'}"
    )


def _weights(plan: SweepPlan, number: int) -> Path | None:
    try:
        return fetch_best(plan, number)
    except OSError:  # the storage is away
        weights = plan.folder / "best" / f"trial-{number}" / BEST
        return weights if weights.is_file() else None


def _recorded(plan: SweepPlan, number: int) -> RunAddress | None:
    """The run of a trial, if its store can be reached: the weights are useful without it."""
    try:
        run_id = run_of_trial(existing_store(plan.tracking_uri), plan.sweep_id, number)
    except (UserError, MlflowException):
        return None
    return RunAddress(plan.tracking_uri, run_id) if run_id else None


def _of_mlflow(run_id: str, tracking_uri: str) -> RecordedModel:
    client = existing_store(tracking_uri)
    try:
        tags = client.get_run(run_id).data.tags
    except MlflowException as error:
        raise UserError(f"there is no run {run_id} in the tracking store") from error
    if SWEEP in tags and TRIAL not in tags:
        return _of_sweep(_plan_of(run_id, tags[SWEEP]))
    with tempfile.TemporaryDirectory() as folder:
        weights = _download(client, run_id, folder)
        return _load(weights, Path("results") / run_id, RunAddress(tracking_uri, run_id))


def _plan_of(run_id: str, sweep_id: str) -> SweepPlan:
    """The plan of the sweep whose parent run this is."""
    for name in names_here():
        plan = load_plan(name)
        if plan.sweep_id == sweep_id:
            return plan
    raise UserError(
        f"the run {run_id} is of a whole sweep, which is not in {SWEEPS_DIR.absolute()}; "
        "give the run of one of its trials"
    )


def _download(client: MlflowClient, run_id: str, folder: str) -> Path:
    try:
        return Path(client.download_artifacts(run_id, CHECKPOINT, folder))
    except (MlflowException, OSError) as error:
        raise UserError(
            f"the run {run_id} has no {CHECKPOINT} among its artifacts, which only the best trials "
            f"of a sweep have ({reason(error)})"
        ) from error


def record(
    model: RecordedModel, metrics: Mapping[str, float], files: Iterable[Path], folder: str
) -> str | None:
    """Add metrics and files to the run in MLflow; returns its id, or None if it is in no store."""
    if model.recorded is None:
        return None
    uri, run_id = model.recorded
    client = existing_store(uri)
    step, now = model.values["update"], int(time.time() * 1000)
    batch = [Metric(clean_name(name), value, now, step) for name, value in metrics.items()]
    try:
        client.log_batch(run_id, [each for each in batch if not _has(client, run_id, each)])
        for path in files:
            client.log_artifact(run_id, str(path), folder)
    except (MlflowException, OSError) as error:
        raise UserError(
            f"the results are written, but cannot be recorded in the run {run_id} of "
            f"{masked(uri)} ({reason(error)})"
        ) from error
    return run_id


def _has(client: MlflowClient, run_id: str, metric: Metric) -> bool:
    """Whether a run has the value at its step already, from an evaluation before."""
    history = client.get_metric_history(run_id, metric.key)
    return any(
        each.step == metric.step and math.isclose(each.value, metric.value, rel_tol=1e-6)
        for each in history
    )
