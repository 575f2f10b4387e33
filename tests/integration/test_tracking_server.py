"""Tracking through a real `mlflow server` that is killed, restarted and held up."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Artifact
from orchestrator.tracking.tracker import Tracker
from tests.support.mlflow_stores import (
    EXPERIMENT,
    PATIENCE,
    check_sweep,
    fresh_sqlite,
    history,
    record,
    runs_of,
    sweep_events,
    wait_for,
)
from tests.support.servers import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    server = Server(fresh_sqlite(folder, tmp_path_factory), folder)
    with server.running():
        yield server


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    log = EventLog(tmp_path / "sweep")
    yield log
    log.close()


def test_sending_everything_again_changes_nothing(
    log: EventLog, server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "board.csv").write_text("a,b")
    log.append(*sweep_events(trials=2, steps=6), Artifact(None, str(tmp_path / "board.csv")))
    record(log, server.uri, sweep_id="twice")
    before = {n: history(server.uri, run) for n, run in runs_of(server.uri, "twice").items()}
    log.mark_sent(0)
    record(log, server.uri, sweep_id="twice")
    runs = runs_of(server.uri, "twice")
    assert repr({n: history(server.uri, run) for n, run in runs.items()}) == repr(before)
    check_sweep(server.uri, trials=2, steps=6, sweep_id="twice")
    files = MlflowClient(server.uri).list_artifacts(runs[None].info.run_id)
    assert [file.path for file in files] == ["board.csv"]
    assert capfd.readouterr().out == ""  # MLflow likes to greet every run that ends


def test_a_server_that_is_held_up_makes_no_second_run(
    log: EventLog, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    first, *rest = sweep_events(trials=3, steps=5)
    tracker = Tracker(log, server.uri, EXPERIMENT, "held-up")
    tracker.start()
    log.append(first)
    assert tracker.flush(PATIENCE) == 0
    server.signal(signal.SIGSTOP)  # it takes requests and carries them out when it wakes up
    try:
        log.append(*rest)
        assert tracker.flush(6) == len(rest)
    finally:
        server.signal(signal.SIGCONT)
    assert tracker.close(PATIENCE) == 0, tracker.last_error
    check_sweep(server.uri, trials=3, steps=5, sweep_id="held-up")


def test_a_server_killed_in_the_middle(log: EventLog, server: Server) -> None:
    events = sweep_events(trials=4, steps=30)
    tracker = Tracker(log, server.uri, EXPERIMENT, "killed")
    tracker.start()
    longest = 0.0
    for count, event in enumerate(events):
        started = time.monotonic()
        log.append(event)
        longest = max(longest, time.monotonic() - started)
        time.sleep(0.02)
        if count == len(events) // 2:
            wait_for(lambda: log.sent)  # some has arrived
            server.kill()
    assert longest < 5  # seconds: nobody waited for the server
    wait_for(lambda: tracker.last_error)
    assert tracker.waiting > 0
    server.start()
    server.wait()
    assert tracker.close(PATIENCE) == 0, tracker.last_error
    check_sweep(server.uri, trials=4, steps=30, sweep_id="killed")
