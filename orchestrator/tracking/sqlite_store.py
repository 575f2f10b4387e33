"""The SQLite file of an MLflow store; it is created as a whole, whenever a kill comes."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

import sqlalchemy
from mlflow.store.db import utils as mlflow_tables

from orchestrator.tracking.event_log import lock_file
from tardis_core.errors import require

LOCAL_DISKS = {"btrfs", "ext3", "ext4", "overlay", "tmpfs", "xfs", "zfs"}
PARTS = ("", "-journal", "-wal", "-shm")  # the files of one database


def database_file(uri: str) -> Path | None:
    """The file of a SQLite store; None for any other store."""
    if not uri.startswith("sqlite:///"):
        return None
    name = uri.removeprefix("sqlite:///").partition("?")[0]
    return Path(unquote(name)) if name not in ("", ":memory:") else None


@contextmanager
def created(database: Path) -> Iterator[None]:
    """A context with the database, which is created first if there is none or only half of one.

    It is locked: MLflow fails if several processes create a database at once.
    """
    require(
        not database.is_dir(), f"the tracking store sqlite:///FILE must be a file, not {database}/"
    )
    database.parent.mkdir(parents=True, exist_ok=True)
    with open(_beside(database, ".lock"), "ab") as file:
        lock_file(file, wait=True)
        if not database.exists() or _is_half_made(database):
            _create(database.resolve())
        yield


def _create(database: Path) -> None:
    """Create the tables in another file, which then gets the name: MLflow takes seconds for it."""
    draft = _beside(database, ".new")
    for part in PARTS:  # what a killed process may have left
        _beside(draft, part).unlink(missing_ok=True)
    mlflow_tables._logger.setLevel(logging.WARNING)  # it announces the tables on the terminal
    engine = sqlalchemy.create_engine(sqlalchemy.URL.create("sqlite", database=str(draft)))
    mlflow_tables._initialize_tables(engine)
    engine.dispose()
    for part in PARTS[1:]:  # of the half-made one: SQLite would replay its journal
        _beside(database, part).unlink(missing_ok=True)
    draft.replace(database)
    _log_ahead(database)


def _is_half_made(database: Path) -> bool:
    """Whether MLflow was killed while it created the database: an early version, and no runs."""
    try:
        with closing(sqlite3.connect(database)) as connection:
            tables = _column(connection, "SELECT name FROM sqlite_master WHERE type = 'table'")
            if "runs" in tables and _column(connection, "SELECT 1 FROM runs LIMIT 1"):
                return False
            versions = "alembic_version" in tables and _column(
                connection, "SELECT version_num FROM alembic_version"
            )
    except sqlite3.DatabaseError:
        return False  # not a database at all, and so none of ours
    known = mlflow_tables.Base.metadata.tables.keys() | mlflow_tables.InitialBase.metadata.tables
    ours = not tables or bool(tables & known)
    return ours and versions != {mlflow_tables._get_latest_schema_revision()}


def _column(connection: sqlite3.Connection, query: str) -> set[str]:
    return {row[0] for row in connection.execute(query)}


def _log_ahead(database: Path) -> None:
    """Switch to write-ahead logging, which needs a local disk: faster, and the UI can read."""
    with suppress(OSError, sqlite3.Error):  # it works without
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
        below = [(len(root), disk) for root, disk in mounts if database.is_relative_to(root)]
        if max(below)[1] in LOCAL_DISKS:
            with closing(sqlite3.connect(database)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")


def _beside(database: Path, ending: str) -> Path:
    return database.with_name(database.name + ending)
