"""Tracking in a real PostgreSQL, directly and behind an `mlflow server`."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Metrics, SweepStarted, TrialEnded, TrialStarted
from orchestrator.tracking.mlflow_store import prepare_store
from orchestrator.tracking.tracker import Tracker
from tardis_core.errors import UserError
from tests.support.mlflow_stores import (
    EXPERIMENT,
    PATIENCE,
    check_sweep,
    history,
    record,
    runs_of,
    sweep_events,
    wait_for,
)
from tests.support.servers import Server, free_port

# SQLAlchemy's driver for postgresql:// since 2.1; it was psycopg2 before.
pytest.importorskip("psycopg", reason="needs psycopg[binary]")


def _binaries() -> Path | None:
    """Where PostgreSQL is: on PATH, or where Debian puts it."""
    initdb = shutil.which("initdb")
    folders = [Path(initdb).parent] if initdb else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").exists()), None)


BINARIES = _binaries()
pytestmark = pytest.mark.skipif(
    BINARIES is None, reason="needs PostgreSQL's initdb and pg_ctl: apt install postgresql"
)


class Postgres:
    """A database server of our own, which can be stopped as by a crash."""

    def __init__(self, folder: Path) -> None:
        self.data, self.port = folder / "data", free_port()
        self.uri = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        # It refuses to run as root.
        self._user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        if self._user:
            shutil.chown(folder, "postgres")
        self._call("initdb", "-U", "postgres", "--auth", "trust", "--no-sync")

    def _call(self, program: str, *arguments: str) -> None:
        assert BINARIES is not None
        command = [*self._user, str(BINARIES / program), "-D", str(self.data), *arguments]
        done = subprocess.run(
            command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
        )
        assert done.returncode == 0, done.stderr.decode()

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        log = str(self.data.parent / "log")
        self._call("pg_ctl", "start", "-w", "-l", log, "-o", options)

    def crash(self) -> None:
        self._call("pg_ctl", "stop", "-m", "immediate")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    # Not in pytest's folder, which belongs to whoever runs it.
    with tempfile.TemporaryDirectory(prefix="tardis-postgres-") as name:
        database = Postgres(Path(name))
        database.start()
        try:
            prepare_store(database.uri, EXPERIMENT, f"{name}/artifacts")
            yield database
        finally:
            database.crash()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    log = EventLog(tmp_path / "sweep")
    yield log
    log.close()


def test_sending_everything_again_changes_nothing(log: EventLog, postgres: Postgres) -> None:
    uri = postgres.uri
    record(log, uri, *sweep_events(trials=2, steps=6), sweep_id="twice")
    before = {n: history(uri, run) for n, run in runs_of(uri, "twice").items()}
    log.mark_sent(0)
    record(log, uri, sweep_id="twice")
    assert repr({n: history(uri, run) for n, run in runs_of(uri, "twice").items()}) == repr(before)
    check_sweep(uri, trials=2, steps=6, sweep_id="twice")


def test_texts_that_postgres_dislikes(log: EventLog, postgres: Postgres) -> None:
    log.append(SweepStarted("s"), TrialStarted(0, {"a": "x\0y\ud800"}))
    log.append(Metrics(0, 1, {"bpc": 1e-320, "big": 1e308}))
    end = TrialEnded(0, "FAILED", {"error": "λ" * 9000})
    tracker = record(log, postgres.uri, end, sweep_id="texts")
    assert tracker.refused == 0
    run = runs_of(postgres.uri, "texts")[0]
    assert run.data.tags["error"] == "λ" * 8000
    assert run.data.metrics == {"bpc": 1e-320, "big": 1e308}


def test_a_database_that_crashes_in_the_middle(log: EventLog, postgres: Postgres) -> None:
    events = sweep_events(trials=3, steps=30)
    tracker = Tracker(log, postgres.uri, EXPERIMENT, "crashed")
    tracker.start()
    for count, event in enumerate(events):
        log.append(event)
        time.sleep(0.03)
        if count == len(events) // 2:
            wait_for(lambda: log.sent)  # some has arrived
            postgres.crash()
    wait_for(lambda: tracker.last_error)
    assert tracker.waiting > 0
    with pytest.raises(UserError, match="must be usable"):
        prepare_store(postgres.uri, EXPERIMENT)
    postgres.start()
    assert tracker.close(PATIENCE) == 0, tracker.last_error
    check_sweep(postgres.uri, trials=3, steps=30, sweep_id="crashed")


def test_behind_a_server(log: EventLog, postgres: Postgres, tmp_path: Path) -> None:
    server = Server(postgres.uri, tmp_path)
    with server.running():
        record(log, server.uri, *sweep_events(trials=2, steps=6), sweep_id="behind")
        log.mark_sent(0)
        record(log, server.uri, sweep_id="behind")
        check_sweep(server.uri, trials=2, steps=6, sweep_id="behind")
