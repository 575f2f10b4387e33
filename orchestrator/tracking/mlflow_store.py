"""An MLflow store, reached or made: a SQLite file, a PostgreSQL database or a server."""

import logging
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import sqlalchemy
from mlflow import MlflowClient
from mlflow.entities import Experiment
from mlflow.exceptions import MlflowException

from orchestrator.common.defaults import default_tracking_uri as default_tracking_uri
from orchestrator.common.redaction import masked
from orchestrator.tracking.event_log import lock_file
from tardis_core.errors import UserError, require

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


def prepare_store(tracking_uri: str, experiment: str, artifact_location: str | None = None) -> str:
    """The id of the experiment, which is made, with its database, where there is none."""
    return reach_store(tracking_uri, experiment, artifact_location)[1]


def reach_store(
    tracking_uri: str, experiment: str, artifact_location: str | None = None
) -> tuple[MlflowClient, str]:
    """`open_store` for commands: raises `UserError`, within seconds, if it cannot be reached."""
    try:
        return open_store(tracking_uri, experiment, artifact_location)
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
    database = database_file(tracking_uri)
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
    if database_file(uri) is None and not any(re.fullmatch(kind, uri) for kind in kinds):
        raise UserError(
            f"a tracking URI must be sqlite:///FILE, http://HOST:PORT, https://HOST or "
            f"postgresql://USER@HOST/DATABASE, not {masked(uri)!r}"
        )


def database_file(uri: str) -> Path | None:
    """The file of a SQLite store; None for a store of another kind."""
    if not uri.startswith("sqlite:///"):
        return None
    name = uri.removeprefix("sqlite:///").partition("?")[0]
    return Path(name) if name not in ("", ":memory:") else None


@contextmanager
def _alone_in(uri: str) -> Iterator[None]:
    """Hold a file beside a SQLite database: several processes making one at once fail in MLflow."""
    database = database_file(uri)
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
    database = database_file(uri)
    return None if database is None else str(database.resolve().parent / "artifacts")


def reason(error: BaseException) -> str:
    """An error in one line."""
    lines = str(error).strip().splitlines()
    return masked(lines[0] if lines else type(error).__name__)
