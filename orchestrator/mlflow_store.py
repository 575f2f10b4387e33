"""The MLflow store of a sweep: one parent run, one child run a trial, found again by their tags.

Everything here may be done twice: the tracker repeats what it does not know to have arrived.
"""

import logging
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

import sqlalchemy
from mlflow import MlflowClient
from mlflow.entities import Experiment, Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME
from requests import HTTPError

from orchestrator import champion
from orchestrator.events import Artifact, Model, lock_file
from orchestrator.masking import masked
from tardis_core.errors import UserError, require

T = TypeVar("T")
SWEEP, TRIAL = "tardis.sweep_id", "tardis.trial"
ENDINGS = ("error", "pruned", "interrupted")  # tags of an end; they go when the trial goes on
# MLflow reads these at every request, and from nowhere else; what the user has set stands. A server
# that is away is tried again by the tracker: MLflow's own retries would only hide it for minutes.
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # seconds
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # a line a trial
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",  # a model of somebody else could run code
}
CONNECT_SECONDS = 5
LOCAL_DISKS = {"btrfs", "ext3", "ext4", "overlay", "tmpfs", "xfs", "zfs"}


class Refused(Exception):
    """The store will never take this, however often it is sent."""


def prepare_store(tracking_uri: str, experiment: str, artifact_location: str | None = None) -> str:
    """The id of the experiment, which is made, with its database, where there is none.

    Raises `UserError` within seconds if the store cannot be reached.
    """
    try:
        return open_store(tracking_uri, experiment, artifact_location)[1]
    except UserError:
        raise
    except (MlflowException, sqlalchemy.exc.SQLAlchemyError, OSError, ValueError) as error:
        _check_login(tracking_uri, error)
        raise UserError(
            f"the tracking store must be usable, and {masked(tracking_uri)} is not "
            f"({reason(error)}); start it, or choose another with --tracking-uri"
        ) from error


def open_store(
    tracking_uri: str, experiment: str, artifact_location: str | None = None
) -> tuple[MlflowClient, str]:
    """A client of the store and the id of the experiment, which is made if it is not there."""
    check_uri(tracking_uri)
    with _alone_in(tracking_uri):
        client = _connect(tracking_uri)
        found = client.get_experiment_by_name(experiment)
        if found is None:
            location = artifact_location or _artifacts_beside(tracking_uri)
            found = _make_experiment(client, experiment, location)
    require(
        found.lifecycle_stage == "active",
        f"an experiment must not be deleted, and {experiment!r} is; choose another name, or "
        f"restore it: mlflow experiments restore -x {found.experiment_id}",
    )
    return client, str(found.experiment_id)


def existing_store(tracking_uri: str) -> MlflowClient:
    """A client of a store that is there already; nothing is made."""
    check_uri(tracking_uri)
    database = _database_file(tracking_uri)
    if database is not None and not database.exists():
        raise UserError(f"there is no tracking store {database}; name one with --tracking-uri")
    try:
        client = _connect(tracking_uri)
        client.search_experiments(max_results=1)
    except (MlflowException, sqlalchemy.exc.SQLAlchemyError, OSError) as error:
        _check_login(tracking_uri, error)
        raise UserError(
            f"the tracking store {masked(tracking_uri)} cannot be used ({reason(error)}); "
            "start it, or choose another with --tracking-uri"
        ) from error
    return client


def _check_login(tracking_uri: str, error: Exception) -> None:
    """Raise a plainer error if a server has turned us away."""
    if isinstance(error, MlflowException) and (
        error.error_code == "UNAUTHENTICATED" or "error code 401" in str(error)
    ):
        raise UserError(
            f"the tracking store {masked(tracking_uri)} asks for a login; set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD to one that it knows"
        ) from error


def run_of_trial(client: MlflowClient, sweep_id: str, number: int) -> str | None:
    """The id of the run of a trial; None where it was not recorded."""
    everywhere = [found.experiment_id for found in client.search_experiments()]
    query = f"tags.`{SWEEP}` = '{sweep_id}' and tags.`{TRIAL}` = '{number}'"
    runs = client.search_runs(everywhere, query, order_by=["attributes.start_time ASC"])
    used = [run for run in runs if not _is_empty(run)]
    return str(used[0].info.run_id) if used else None


def _make_experiment(client: MlflowClient, name: str, location: str | None) -> Experiment:
    # Without its kind MLflow opens an experiment as a log of chats.
    kind = {"mlflow.experimentKind": "custom_model_development"}
    try:
        return client.get_experiment(client.create_experiment(name, location, kind))
    except MlflowException:
        found = client.get_experiment_by_name(name)  # another sweep may have been faster
        if found is None:
            raise
        return found


def _connect(tracking_uri: str) -> MlflowClient:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # It prints a page for every failure, which we are told of anyway.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    if tracking_uri.startswith("postgresql"):
        _reach_database(tracking_uri)
    return MlflowClient(tracking_uri)


def _reach_database(uri: str) -> None:
    # MLflow itself would wait for an absent database for minutes.
    try:
        engine = sqlalchemy.create_engine(uri, connect_args={"connect_timeout": CONNECT_SECONDS})
    except ImportError as error:
        package = f"{error.name}-binary" if error.name == "psycopg2" else f"{error.name}[binary]"
        raise UserError(
            f"PostgreSQL needs a driver, and {error.name} is not installed; pip install '{package}'"
        ) from error
    try:
        engine.connect().close()
    finally:
        engine.dispose()


def check_uri(uri: str) -> None:
    """Raise unless the URI names a store of a kind that this is tested with."""
    kinds = r"https?://[^/\s]+(/\S*)?", r"postgresql(\+\w+)?://[^/\s]*/[^/\s]+"
    if _database_file(uri) is None and not any(re.fullmatch(kind, uri) for kind in kinds):
        raise UserError(
            f"a tracking URI must be sqlite:///FILE, http://HOST:PORT, https://HOST or "
            f"postgresql://USER@HOST/DATABASE, not {masked(uri)!r}"
        )


def _database_file(uri: str) -> Path | None:
    if not uri.startswith("sqlite:///"):
        return None
    name = uri.removeprefix("sqlite:///").partition("?")[0]
    return Path(name) if name not in ("", ":memory:") else None


@contextmanager
def _alone_in(uri: str) -> Iterator[None]:
    """Hold a file beside a SQLite database: several processes making one at once fail in MLflow."""
    database = _database_file(uri)
    if database is None:
        yield
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    with open(database.with_name(f"{database.name}.lock"), "ab") as file:
        lock_file(file, wait=True)
        is_new = not database.exists()
        yield
        if is_new:
            _log_ahead(database.resolve())


def _log_ahead(database: Path) -> None:
    """Halve the time of a write, and let the UI read meanwhile; only this machine's disks can."""
    with suppress(OSError, sqlite3.Error):  # no matter: it works without
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
        below = [(len(root), disk) for root, disk in mounts if database.is_relative_to(root)]
        if max(below)[1] in LOCAL_DISKS:
            with closing(sqlite3.connect(database)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")


def _artifacts_beside(uri: str) -> str | None:
    # MLflow's own default is a folder of wherever the command happened to be run.
    database = _database_file(uri)
    return None if database is None else str(database.resolve().parent / "artifacts")


def reason(error: BaseException) -> str:
    """An error in one line."""
    lines = str(error).strip().splitlines()
    return masked(lines[0] if lines else type(error).__name__)


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
        query, page = f"tags.`{SWEEP}` = '{self._sweep_id}'", None
        while True:
            runs = self._client.search_runs([self._experiment_id], query, page_token=page)
            for run in runs:
                trial = run.data.tags.get(TRIAL)
                found.setdefault(None if trial is None else int(trial), []).append(run)
            page = runs.token
            if not page:
                break
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
