"""An MLflow store, opened or created: a SQLite file, a PostgreSQL database or a server."""

import logging
import os
import re
from contextlib import nullcontext

import sqlalchemy
from mlflow import MlflowClient
from mlflow.entities import Experiment
from mlflow.exceptions import MlflowException

from orchestrator.common.defaults import default_tracking_uri as default_tracking_uri
from orchestrator.common.redaction import masked
from orchestrator.tracking.sqlite_store import created
from orchestrator.tracking.sqlite_store import database_file as database_file
from tardis_core.errors import UserError, require
from tardis_core.text import error_line

# MLflow reads these at every request; what the user has set takes precedence. The tracker retries
# when a server is away: MLflow's own retries would only hide it for minutes.
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # seconds
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # one line per trial
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",  # it could run somebody else's code
}
CONNECT_SECONDS = 5


def prepare_store(tracking_uri: str, experiment: str, artifact_location: str | None = None) -> str:
    """The id of the experiment, which is created with its database if it does not exist."""
    return reach_store(tracking_uri, experiment, artifact_location)[1]


def reach_store(
    tracking_uri: str, experiment: str, artifact_location: str | None = None
) -> tuple[MlflowClient, str]:
    """`open_store` for commands: raises `UserError` within seconds if the store is away."""
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
    """A client of the store and the id of the experiment, which is created if necessary."""
    check_uri(tracking_uri)
    database = database_file(tracking_uri)
    with nullcontext() if database is None else created(database):
        client = _connect(tracking_uri)
        existing = client.get_experiment_by_name(experiment)
        if existing is None:
            location = artifact_location or _artifacts_beside(tracking_uri)
            existing = _create_experiment(client, experiment, location)
    require(
        existing.lifecycle_stage == "active",
        f"an experiment must not be deleted, and {experiment!r} is; choose another name, or "
        f"restore it: mlflow experiments restore -x {existing.experiment_id}",
    )
    return client, str(existing.experiment_id)


def existing_store(tracking_uri: str) -> MlflowClient:
    """A client of an existing store; nothing is created."""
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
    """Raise a clearer error if a server has rejected our login."""
    if isinstance(error, MlflowException) and (
        error.error_code == "UNAUTHENTICATED" or "error code 401" in str(error)
    ):
        raise UserError(
            f"the tracking store {masked(tracking_uri)} asks for a login; set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD to a valid one"
        ) from error


def _create_experiment(client: MlflowClient, name: str, location: str | None) -> Experiment:
    # Without a kind MLflow shows an experiment as a log of chats.
    kind = {"mlflow.experimentKind": "custom_model_development"}
    try:
        return client.get_experiment(client.create_experiment(name, location, kind))
    except MlflowException:
        existing = client.get_experiment_by_name(name)  # another sweep may have been faster
        if existing is None:
            raise
        return existing


def _connect(tracking_uri: str) -> MlflowClient:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # It logs a page for every failure, which is raised anyway.
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
    """Raise unless the URI names a kind of store that is supported."""
    kinds = r"https?://[^/\s]+(/\S*)?", r"postgresql(\+\w+)?://[^/\s]*/[^/\s]+"
    if database_file(uri) is None and not any(re.fullmatch(kind, uri) for kind in kinds):
        raise UserError(
            f"a tracking URI must be sqlite:///FILE, http://HOST:PORT, https://HOST or "
            f"postgresql://USER@HOST/DATABASE, not {masked(uri)!r}"
        )


def _artifacts_beside(uri: str) -> str | None:
    # MLflow's own default is a folder in the working directory of whichever command came first.
    database = database_file(uri)
    return None if database is None else str(database.resolve().parent / "artifacts")


def reason(error: BaseException) -> str:
    """An error in one line, without passwords."""
    return masked(error_line(error))
