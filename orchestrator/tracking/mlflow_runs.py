"""The runs of a sweep in MLflow: one parent, one child a trial, found again by their tags.

Everything here may be done twice: the tracker repeats what it does not know to have arrived.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeVar

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME
from requests import HTTPError

from orchestrator.tracking import champion
from orchestrator.tracking.events import Artifact, Model

T = TypeVar("T")
SWEEP, TRIAL = "tardis.sweep_id", "tardis.trial"
ENDINGS = ("error", "pruned", "interrupted")  # tags of an end; they go when the trial goes on


class Refused(Exception):
    """The store will never take this, however often it is sent."""


def is_refusal(error: Exception) -> bool:
    """Whether the store has understood and said no, so that there is no use in asking again."""
    if isinstance(error, MlflowException):
        return error.error_code == "INVALID_PARAMETER_VALUE"
    if isinstance(error, HTTPError) and error.response is not None:
        return error.response.status_code in (400, 413, 422)
    return isinstance(error, Refused)


@dataclass
class Update:
    """What is new of one run."""

    at: int  # when the first of it happened, in milliseconds since 1970
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: list[Metric] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    goes_on: bool = False  # even if it had ended
    status: str | None = None
    ended_at: int | None = None

    def go_on(self) -> None:
        """The run is running, whatever was said before."""
        self.goes_on, self.status, self.ended_at = True, "RUNNING", None
        for key in ENDINGS:
            self.tags.pop(key, None)


@dataclass
class _Known:
    """What this process knows of a run in the store."""

    id: str
    status: str
    params: set[str]
    tags: set[str]

    @classmethod
    def of(cls, run: Run) -> "_Known":
        return cls(run.info.run_id, run.info.status, set(run.data.params), set(run.data.tags))


class SweepRuns:
    """The runs of one sweep by the numbers of their trials; None is the number of the parent."""

    def __init__(self, client: MlflowClient, experiment_id: str, sweep_id: str) -> None:
        self._client, self._experiment_id, self._sweep_id = client, experiment_id, sweep_id
        self._runs = {number: _Known.of(runs[0]) for number, runs in self._search().items()}

    def __contains__(self, number: int | None) -> bool:
        return number in self._runs

    def _search(self) -> dict[int | None, list[Run]]:
        """All runs of the sweep by trial; where there are several of one, the used one first."""
        found: dict[int | None, list[Run]] = {}
        for run in runs_of_sweep(self._client, self._experiment_id, self._sweep_id):
            trial = run.data.tags.get(TRIAL)
            found.setdefault(None if trial is None else int(trial), []).append(run)
        for twins in found.values():
            twins.sort(key=lambda run: (_is_empty(run), run.info.start_time, run.info.run_id))
        return found

    def apply(self, number: int | None, update: Update) -> None:
        """Bring one run up to date."""
        known = self._runs.get(number)
        if known is None:
            known = self._runs[number] = self._create(number, update)
        if update.goes_on and known.status != "RUNNING":
            self._reopen(known, update)
        self._log(known, update)
        for artifact in update.artifacts:
            self._upload(known.id, artifact)
        for model in update.models:
            self._upload(known.id, Artifact(model.number, model.path, champion.FOLDER))
            champion.offer(self._client, known.id, model)
        if update.ended_at is not None:
            self._client.set_terminated(known.id, update.status, update.ended_at)
        known.status = update.status or known.status

    def _create(self, number: int | None, update: Update) -> _Known:
        tags, name = {SWEEP: self._sweep_id}, self._sweep_id
        if number is not None:
            if None not in self:
                self.apply(None, Update(update.at))
            tags |= {TRIAL: str(number), MLFLOW_PARENT_RUN_ID: self._runs[None].id}
            name = f"trial {number}"
        name = update.tags.get(MLFLOW_RUN_NAME, name)
        return _Known.of(self._client.create_run(self._experiment_id, update.at, tags, name))

    def _reopen(self, known: _Known, update: Update) -> None:
        """Make a run that had ended run again, and forget how it had ended."""
        for key in (known.tags & set(ENDINGS)) - update.tags.keys():
            self._client.delete_tag(known.id, key)
            known.tags.remove(key)
        if update.ended_at is None:
            self._client.update_run(known.id, "RUNNING")

    def _log(self, known: _Known, update: Update) -> None:
        """Parameters, tags and metrics, in as few requests as MLflow allows."""
        params = {clean_name(key): clean_text(text, 6000) for key, text in update.params.items()}
        tags = {clean_name(key): clean_text(text, 8000) for key, text in update.tags.items()}
        # MLflow does not let a parameter change: the first value stands.
        new = [Param(key, text) for key, text in params.items() if key not in known.params]
        for metrics_, params_, tags_ in zip_longest(
            _chunks(update.metrics, 800),
            _chunks(new, 100),
            _chunks([RunTag(key, text) for key, text in tags.items()], 100),
            fillvalue=(),
        ):
            self._client.log_batch(known.id, metrics_, params_, tags_)
        known.params |= params.keys()
        known.tags |= tags.keys()

    def _upload(self, run_id: str, artifact: Artifact) -> None:
        path, folder = artifact.path, artifact.artifact_path
        if not os.access(path, os.R_OK):
            raise Refused(f"{path} is not there, or cannot be read")
        if os.path.isdir(path):
            self._client.log_artifacts(run_id, path, folder)
        else:
            self._client.log_artifact(run_id, path, folder)

    def remove_strays(self) -> None:
        """Delete the empty twins of runs: the server made them after we had stopped waiting."""
        used = {known.id for known in self._runs.values()}
        for twins in self._search().values():
            for run in twins:
                if len(twins) > 1 and run.info.run_id not in used and _is_empty(run):
                    self._client.delete_run(run.info.run_id)


def runs_of_sweep(client: MlflowClient, experiment_id: str, sweep_id: str) -> Iterator[Run]:
    """All runs of a sweep, on however many pages."""
    query, page = f"tags.`{SWEEP}` = '{sweep_id}'", None
    while True:
        runs = client.search_runs([experiment_id], query, page_token=page)
        yield from runs
        page = runs.token
        if not page:
            return


def run_of_trial(client: MlflowClient, sweep_id: str, number: int) -> str | None:
    """The id of the run of a trial; None where it was not recorded."""
    everywhere = [found.experiment_id for found in client.search_experiments()]
    query = f"tags.`{SWEEP}` = '{sweep_id}' and tags.`{TRIAL}` = '{number}'"
    runs = client.search_runs(everywhere, query, order_by=["attributes.start_time ASC"])
    used = [run for run in runs if not _is_empty(run)]
    return str(used[0].info.run_id) if used else None


def _is_empty(run: Run) -> bool:
    return not run.data.params and not run.data.metrics


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def clean_name(name: str) -> str:
    """A name that MLflow takes for a metric, a parameter or a tag."""
    safe = re.sub(r"[^/\w.\- :]", "_", name)
    parts = (part.lstrip(".") for part in safe.split("/"))
    return "/".join(part for part in parts if part)[:250].rstrip("/") or "_"


def clean_text(text: str, limit: int) -> str:
    """A text that every database takes."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()[:limit]
