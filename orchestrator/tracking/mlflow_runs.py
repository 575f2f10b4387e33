"""The runs of a sweep in MLflow: one parent and one child per trial, found by their tags.

Everything here can be done twice: the tracker repeats what may not have arrived.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeVar

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import (
    MLFLOW_DATASET_CONTEXT,
    MLFLOW_GIT_COMMIT,
    MLFLOW_PARENT_RUN_ID,
    MLFLOW_RUN_NAME,
    MLFLOW_SOURCE_NAME,
    MLFLOW_SOURCE_TYPE,
    MLFLOW_USER,
)
from requests import HTTPError

from orchestrator.tracking import champion, logged_model
from orchestrator.tracking.events import Artifact, Model
from orchestrator.tracking.states import ENDING_TAGS

T = TypeVar("T")
SWEEP, TRIAL = "tardis.sweep_id", "tardis.trial"
# Tags that a trial has from its sweep.
INHERITED = (MLFLOW_USER, MLFLOW_SOURCE_NAME, MLFLOW_SOURCE_TYPE, MLFLOW_GIT_COMMIT)


class Refused(Exception):
    """The store will never accept this, however often it is sent."""


def is_refusal(error: Exception) -> bool:
    """Whether the store has understood the request and rejected it, so that a retry is useless."""
    if isinstance(error, MlflowException):
        return error.error_code == "INVALID_PARAMETER_VALUE"
    if isinstance(error, HTTPError) and error.response is not None:
        return error.response.status_code in (400, 413, 422)
    return isinstance(error, Refused)


@dataclass
class Update:
    """Changes to one run."""

    at: int  # time of the first change, in milliseconds since 1970
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: list[Metric] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    resumes: bool = False  # even if it had ended
    status: str | None = None
    ended_at: int | None = None

    def resume(self) -> None:
        """The run is running, even if it had ended before."""
        self.resumes, self.status, self.ended_at = True, "RUNNING", None
        for key in ENDING_TAGS:
            self.tags.pop(key, None)


@dataclass
class _Known:
    """What this process knows about a run in the store."""

    id: str
    status: str
    params: set[str]
    tags: dict[str, str]
    has_data: bool  # whether its data set is recorded

    @classmethod
    def of(cls, run: Run) -> "_Known":
        data = bool(run.inputs and run.inputs.dataset_inputs)
        params, tags = set(run.data.params), dict(run.data.tags)
        return cls(run.info.run_id, run.info.status, params, tags, data)


class SweepRuns:
    """The runs of one sweep by trial number; None stands for the parent run."""

    def __init__(self, client: MlflowClient, experiment_id: str, sweep_id: str) -> None:
        self._client, self._experiment_id, self._sweep_id = client, experiment_id, sweep_id
        self._runs = {number: _Known.of(runs[0]) for number, runs in self._search().items()}

    def __contains__(self, number: int | None) -> bool:
        return number in self._runs

    def _search(self) -> dict[int | None, list[Run]]:
        """All runs of the sweep by trial; if a trial has several, the used one first."""
        by_trial: dict[int | None, list[Run]] = {}
        for run in runs_of_sweep(self._client, self._experiment_id, self._sweep_id):
            trial = run.data.tags.get(TRIAL)
            by_trial.setdefault(None if trial is None else int(trial), []).append(run)
        for duplicates in by_trial.values():
            duplicates.sort(key=lambda run: (_is_empty(run), run.info.start_time, run.info.run_id))
        return by_trial

    def apply(self, number: int | None, update: Update) -> None:
        """Bring one run up to date."""
        known = self._runs.get(number)
        if known is None:
            known = self._runs[number] = self._create(number, update)
        if update.resumes and known.status != "RUNNING":
            self._reopen(known, update)
        self._log(known, update)
        self._log_data(known)
        for artifact in update.artifacts:
            self._upload(known.id, artifact)
        for model in update.models:
            _check_readable(model.path)
            logged = logged_model.log_model(self._client, known.id, model)
            champion.offer(self._client, logged, model)
        if update.ended_at is not None:
            self._client.set_terminated(known.id, update.status, update.ended_at)
        known.status = update.status or known.status

    def _create(self, number: int | None, update: Update) -> _Known:
        tags, name = {SWEEP: self._sweep_id}, self._sweep_id
        if number is not None:
            if None not in self:
                self.apply(None, Update(update.at))
            parent = self._runs[None]
            tags |= {key: parent.tags[key] for key in INHERITED if key in parent.tags}
            tags |= {TRIAL: str(number), MLFLOW_PARENT_RUN_ID: parent.id}
            name = f"trial {number}"
        name = update.tags.get(MLFLOW_RUN_NAME, name)
        return _Known.of(self._client.create_run(self._experiment_id, update.at, tags, name))

    def _reopen(self, known: _Known, update: Update) -> None:
        """Set a run that had ended to running, and remove the tags of its end."""
        for key in (known.tags.keys() & set(ENDING_TAGS)) - update.tags.keys():
            self._client.delete_tag(known.id, key)
            del known.tags[key]
        if update.ended_at is None:
            self._client.update_run(known.id, "RUNNING")

    def _log(self, known: _Known, update: Update) -> None:
        """Log parameters, tags and metrics in as few requests as MLflow allows."""
        params = {clean_name(key): clean_text(text, 6000) for key, text in update.params.items()}
        tags = {clean_name(key): clean_text(text, 8000) for key, text in update.tags.items()}
        changed = {key: text for key, text in tags.items() if known.tags.get(key) != text}
        # In MLflow a parameter cannot change: the first value stays.
        new = [Param(key, text) for key, text in params.items() if key not in known.params]
        for metrics_, params_, tags_ in zip_longest(
            _chunks(update.metrics, 800),
            _chunks(new, 100),
            _chunks([RunTag(key, text) for key, text in changed.items()], 100),
            fillvalue=(),
        ):
            self._client.log_batch(known.id, metrics_, params_, tags_)
        known.params |= params.keys()
        known.tags |= changed

    def _log_data(self, known: _Known) -> None:
        """Record the data of the sweep as the input of a run, once."""
        data = data_set(self._runs[None].tags)
        if data is None or known.has_data:
            return
        context = [InputTag(MLFLOW_DATASET_CONTEXT, "training")]
        self._client.log_inputs(known.id, [DatasetInput(data, context)])
        known.has_data = True

    def _upload(self, run_id: str, artifact: Artifact) -> None:
        path, folder = artifact.path, artifact.artifact_path
        _check_readable(path)
        if os.path.isdir(path):
            self._client.log_artifacts(run_id, path, folder)
        else:
            self._client.log_artifact(run_id, path, folder)

    def remove_duplicates(self) -> None:
        """Delete empty duplicates of runs, which the server created after a request timed out."""
        used = {known.id for known in self._runs.values()}
        for duplicates in self._search().values():
            for run in duplicates:
                if len(duplicates) > 1 and run.info.run_id not in used and _is_empty(run):
                    self._client.delete_run(run.info.run_id)


def runs_of_sweep(client: MlflowClient, experiment_id: str, sweep_id: str) -> Iterator[Run]:
    """All runs of a sweep, from every page of the search."""
    query, page = f"tags.`{SWEEP}` = '{sweep_id}'", None
    while True:
        runs = client.search_runs([experiment_id], query, page_token=page)
        yield from runs
        page = runs.token
        if not page:
            return


def run_of_trial(client: MlflowClient, sweep_id: str, number: int) -> str | None:
    """The id of a trial's run; None if it was not recorded."""
    experiments = [each.experiment_id for each in client.search_experiments()]
    query = f"tags.`{SWEEP}` = '{sweep_id}' and tags.`{TRIAL}` = '{number}'"
    runs = client.search_runs(experiments, query, order_by=["attributes.start_time ASC"])
    used = [run for run in runs if not _is_empty(run)]
    return str(used[0].info.run_id) if used else None


def data_set(tags: Mapping[str, str]) -> Dataset | None:
    """The data of a sweep from the tags of its run, as MLflow wants it; None if they lack it."""
    if "data" not in tags:
        return None
    real, sha256 = tags.get("data.real") == "True", tags.get("data.sha256", "")
    source = json.dumps({"sha256": sha256} if sha256 else {"generated_by": "tardis_core"})
    kind = "files" if real and sha256 else "generated"
    return Dataset(tags["data"], sha256[:12] or "generated", kind, source)


def _check_readable(path: str) -> None:
    if not os.access(path, os.R_OK):
        raise Refused(f"{path} does not exist or cannot be read")


def _is_empty(run: Run) -> bool:
    return not run.data.params and not run.data.metrics


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def clean_name(name: str) -> str:
    """A name that MLflow accepts for a metric, a parameter or a tag."""
    safe = re.sub(r"[^/\w.\- :]", "_", name)
    parts = (part.lstrip(".") for part in safe.split("/"))
    return "/".join(part for part in parts if part)[:250].rstrip("/") or "_"


def clean_text(text: str, limit: int) -> str:
    """A text that every database accepts."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()[:limit]
