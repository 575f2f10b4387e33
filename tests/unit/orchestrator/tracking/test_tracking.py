"""Tracking in a SQLite store: exactly once, in the background, with nothing lost."""

import logging
import math
import os
import random
import sqlite3
import time
from contextlib import closing
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.utils.validation import _validate_metric_name

from orchestrator.tracking import tracker as tracker_module
from orchestrator.tracking.delivery import Delivery, Store
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import (
    Artifact,
    Metrics,
    SweepEnded,
    SweepMetrics,
    SweepStarted,
    SweepTags,
    TrialEnded,
    TrialPaused,
    TrialStarted,
)
from orchestrator.tracking.mlflow_runs import clean_name, clean_text
from orchestrator.tracking.mlflow_store import prepare_store
from orchestrator.tracking.tracker import Tracker
from tardis_core.errors import UserError
from tests.support.mlflow_stores import (
    EXPERIMENT,
    PATIENCE,
    SWEEP,
    check_sweep,
    fresh_sqlite,
    history,
    quick_processes,
    record,
    runs_of,
    sweep_events,
    wait_for,
)

NOWHERE = "http://127.0.0.1:9"  # nothing listens on the port called discard


@pytest.fixture
def uri(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return fresh_sqlite(tmp_path / "store", tmp_path_factory)


@pytest.fixture
def log(tmp_path: Path):
    log = EventLog(tmp_path / "sweep")
    yield log
    log.close()


def test_a_sweep_is_recorded(log: EventLog, uri: str) -> None:
    record(log, uri, *sweep_events(trials=3, steps=8))
    check_sweep(uri, trials=3, steps=8)
    runs, (_, started, *_rest) = runs_of(uri), [event for event, _ in log.read(0)]
    assert runs[None].data.params == {"trials": "3"}
    assert runs[None].data.tags["task"] == "ptb"
    assert runs[0].info.start_time == started.at
    assert runs[0].info.run_name == "trial 0"
    odd = MlflowClient(uri).get_metric_history(runs[0].info.run_id, "odd")
    assert math.isnan(odd[0].value)
    assert [point.timestamp for point in odd] == sorted(
        event.at for event, _ in log.read(0) if isinstance(event, Metrics) and event.number == 0
    )


def test_sending_everything_again_changes_nothing(log: EventLog, uri: str) -> None:
    record(log, uri, *sweep_events(trials=2, steps=6))
    before = {n: history(uri, run) for n, run in runs_of(uri).items()}
    log.mark_sent(0)
    record(log, uri)
    assert repr({n: history(uri, run) for n, run in runs_of(uri).items()}) == repr(before)
    check_sweep(uri, trials=2, steps=6)


@pytest.mark.slow
def test_a_store_that_is_away_blocks_nobody(log: EventLog, uri: str) -> None:
    tracker = Tracker(log, NOWHERE, EXPERIMENT, SWEEP)
    tracker.start()
    started = time.monotonic()
    log.append(*sweep_events(trials=2, steps=50))
    wait_for(lambda: tracker.last_error)
    assert tracker.close(0.5) == log.waiting > 100
    assert time.monotonic() - started < 15  # seconds: MLflow's own retries take minutes
    assert tracker.last_error is not None
    assert "127.0.0.1" in tracker.last_error
    assert "\n" not in tracker.last_error
    record(log, uri)  # the next process finds it all on disk
    check_sweep(uri, trials=2, steps=50)


def test_another_store_gets_the_whole_sweep(
    log: EventLog, uri: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    record(log, uri, *sweep_events(trials=2, steps=3)[:-1])
    other = fresh_sqlite(tmp_path / "other", tmp_path_factory)
    record(log, other, SweepEnded("FINISHED"))
    check_sweep(other, trials=2, steps=3)


def test_a_crash_before_the_cursor_moves_makes_no_second_run(
    log: EventLog, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(log, "mark_sent", lambda offset: os.stat("/nowhere"))
        tracker = Tracker(log, uri, EXPERIMENT, SWEEP)
        log.append(*sweep_events(trials=2, steps=3)[:6])
        tracker.start()
        wait_for(lambda: tracker.last_error)
        assert tracker.close(0.1) == 6
    assert runs_of(uri).keys() == {None, 0, 1}
    record(log, uri, *sweep_events(trials=2, steps=3))
    check_sweep(uri, trials=2, steps=3)


def test_a_trial_that_waits_for_its_promotion_is_marked(log: EventLog, uri: str) -> None:
    record(log, uri, TrialStarted(0), Metrics(0, 1, {"bpc": 2.0}), TrialPaused(0))
    run = runs_of(uri)[0]
    assert (run.info.status, run.data.tags["state"]) == ("RUNNING", "paused")
    record(log, uri, TrialStarted(0))
    assert runs_of(uri)[0].data.tags["state"] == "running"


def test_a_failed_trial_that_is_resumed(log: EventLog, uri: str) -> None:
    log.append(SweepStarted("s"), TrialStarted(0), Metrics(0, 1, {"bpc": 2.0}))
    record(log, uri, TrialEnded(0, "FAILED", {"error": "CUDA out of memory"}))
    run = runs_of(uri)[0]
    assert (run.info.status, run.data.tags["error"]) == ("FAILED", "CUDA out of memory")
    record(log, uri, TrialStarted(0))
    run = runs_of(uri)[0]
    assert (run.info.status, run.data.tags.get("error")) == ("RUNNING", None)
    assert run.data.tags["state"] == "running"
    record(log, uri, Metrics(0, 1, {"bpc": 2.0}), Metrics(0, 2, {"bpc": 1.9}))
    record(log, uri, TrialEnded(0, "KILLED", {"pruned": "true"}), SweepEnded("FINISHED"))
    run = runs_of(uri)[0]
    assert (run.info.status, run.data.tags["state"]) == ("FINISHED", "pruned")
    record(log, uri, Metrics(0, 3, {"bpc": 1.8}), TrialEnded(0, "FINISHED"))
    run = runs_of(uri)[0]
    assert (run.info.status, run.data.tags.get("pruned")) == ("FINISHED", None)
    assert history(uri, run) == {"bpc": [(1, 2.0), (2, 1.9), (3, 1.8)]}
    assert runs_of(uri)[None].info.status == "FINISHED"


def test_a_trial_has_the_data_the_user_and_the_source_of_its_sweep(log: EventLog, uri: str) -> None:
    tags = {"data": "ptb", "data.real": "True", "data.sha256": "ab" * 32}
    tags |= {"user": "ada", "command": "python -m orchestrator.sweep ptb"}
    log.append(SweepStarted("s", tags), TrialStarted(0), Metrics(0, 1, {"best_valid_bpc": 2.0}))
    record(log, uri, SweepMetrics(1, {"best_valid_bpc": 2.0}), SweepEnded("FINISHED"))
    log.mark_sent(0)
    record(log, uri, SweepMetrics(1, {"best_valid_bpc": 2.0}))
    for run in runs_of(uri).values():
        assert run.data.tags["mlflow.user"] == "ada"
        assert run.data.tags["mlflow.source.name"] == "python -m orchestrator.sweep ptb"
        (data,) = [each.dataset for each in run.inputs.dataset_inputs]
        assert (data.name, data.digest, data.source_type) == ("ptb", "abababababab", "files")
        assert history(uri, run)["best_valid_bpc"] == [(1, 2.0)]


def test_an_extended_sweep_keeps_its_first_parameters(log: EventLog, uri: str) -> None:
    record(log, uri, SweepStarted("s", params={"trials": 8, "seed": 0}), SweepEnded("FINISHED"))
    record(log, uri, SweepStarted("s", {"extended": "yes"}, {"trials": 28, "scale": "small"}))
    parent = runs_of(uri)[None]
    assert parent.info.status == "RUNNING"
    assert parent.data.params == {"trials": "8", "seed": "0", "scale": "small"}
    assert parent.data.tags["extended"] == "yes"
    record(log, uri, SweepTags({"best": "3"}), SweepEnded("KILLED"))
    assert runs_of(uri)[None].info.status == "KILLED"
    assert runs_of(uri)[None].data.tags["best"] == "3"


def test_files_and_folders_of_sweep_and_trial(log: EventLog, uri: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights.pt").write_bytes(b"w")
    (tmp_path / "board.csv").write_text("a,b")
    log.append(SweepStarted("s"), TrialStarted(0))
    log.append(Artifact(0, str(tmp_path / "model"), "model"))
    record(log, uri, Artifact(None, str(tmp_path / "board.csv")))
    client = MlflowClient(uri)
    runs = runs_of(uri)
    assert [f.path for f in client.list_artifacts(runs[0].info.run_id, "model")] == [
        "model/weights.pt"
    ]
    assert [f.path for f in client.list_artifacts(runs[None].info.run_id)] == ["board.csv"]
    assert (tmp_path / "store" / "artifacts").is_dir()  # beside the database, not in the cwd


@pytest.mark.slow
def test_what_the_store_refuses_is_set_aside(
    log: EventLog, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    events = sweep_events(trials=2, steps=4)
    log.append(*events[:4], Artifact(0, "/nowhere/a"), *events[4:7], Artifact(0, "/nowhere/b"))
    with caplog.at_level(logging.WARNING, logger="orchestrator.tracking.tracker"):
        tracker = record(log, uri, *events[7:])
    check_sweep(uri, trials=2, steps=4)
    assert tracker.refused == 2
    assert len(caplog.records) == 1
    lines = (log.folder / "tracking.refused.jsonl").read_text().splitlines()
    assert ["/nowhere/a" in lines[0], "/nowhere/b" in lines[1]] == [True, True]


def test_a_password_in_the_words_of_the_store_is_not_kept(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, Store("unused", EXPERIMENT), SWEEP)
    error = MlflowException("400 for url: http://me:hunter2@there/api")
    delivery._set_aside(TrialStarted(0), error)
    kept = (tmp_path / "tracking.refused.jsonl").read_text()
    assert "http://me:***@there" in kept
    assert "hunter2" not in kept


@pytest.mark.slow
def test_a_run_that_someone_deleted_does_not_stop_the_others(log: EventLog, uri: str) -> None:
    events = sweep_events(trials=2, steps=4)
    tracker = Tracker(log, uri, EXPERIMENT, SWEEP)
    tracker.start()
    log.append(*events[:4])
    assert tracker.flush(PATIENCE) == 0
    MlflowClient(uri).delete_run(runs_of(uri)[0].info.run_id)
    log.append(*events[4:])
    assert tracker.close(PATIENCE) == 0
    assert tracker.refused == 4  # of trial 0: three steps and its end
    runs = runs_of(uri)
    assert runs.keys() == {None, 1}
    assert len(history(uri, runs[1])["constant"]) == 4


@pytest.mark.slow
def test_an_answer_that_came_too_late_leaves_no_duplicate(log: EventLog, uri: str) -> None:
    events = sweep_events(trials=2, steps=4)
    record(log, uri, *events[:6])
    client, run = MlflowClient(uri), runs_of(uri)[1]
    late = {key: run.data.tags[key] for key in ("tardis.sweep_id", "tardis.trial")}
    client.create_run(run.info.experiment_id, start_time=1, tags=late)
    record(log, uri, *events[6:])
    check_sweep(uri, trials=2, steps=4)


@pytest.mark.slow
def test_more_than_mlflow_takes_at_once(log: EventLog, uri: str) -> None:
    params = {f"p{n}": "x" * 7000 for n in range(150)}
    tags = {f"t{n}": "y" * 9000 for n in range(120)}
    log.append(SweepStarted("s"), TrialStarted(0, params, tags))
    log.append(*(Metrics(0, step, {f"m{n}": step for n in range(10)}) for step in range(250)))
    record(log, uri, SweepEnded("FINISHED"))
    run = runs_of(uri)[0]
    assert run.data.params == dict.fromkeys(params, "x" * 6000)
    assert run.data.tags["t119"] == "y" * 8000
    assert [len(points) for points in history(uri, run).values()] == [250] * 10


@pytest.mark.slow
def test_runs_are_found_on_every_page(
    log: EventLog, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = MlflowClient.search_runs
    monkeypatch.setattr(
        MlflowClient,
        "search_runs",
        lambda *args, **options: search(*args, **{"max_results": 2, **options}),
    )
    events = sweep_events(trials=5, steps=2)
    record(log, uri, *events[:10])
    log.mark_sent(0)
    record(log, uri, *events)
    monkeypatch.undo()
    check_sweep(uri, trials=5, steps=2)


def test_texts_that_databases_dislike(log: EventLog, uri: str) -> None:
    log.append(SweepStarted("s"), TrialStarted(0, {"a/../b": "", "ü": "\ud800"}))
    log.append(Metrics(0, 1, {"loss (nats)": 1.0, "../up": 2.0, "": 3.0}))
    tracker = record(log, uri, TrialEnded(0, "FAILED", {"error": "a\0b"}))
    assert tracker.refused == 0
    run = runs_of(uri)[0]
    assert run.data.metrics == {"loss _nats_": 1.0, "up": 2.0, "_": 3.0}
    assert run.data.params == {"a/b": "", "ü": "?"}


@given(st.text(st.characters(codec="utf-8")) | st.text("./: a", min_size=1))
def test_clean_names_are_names_to_mlflow(name: str) -> None:
    _validate_metric_name(clean_name(name))
    assert clean_name(clean_name(name)) == clean_name(name)
    assert len(clean_name(name * 200)) <= 250


def test_ordinary_names_and_texts_stay() -> None:
    assert clean_name("valid_bpc/mean.of 3:x") == "valid_bpc/mean.of 3:x"
    assert clean_text("naïve λ", 100) == "naïve λ"


@pytest.mark.parametrize(
    "uri",
    ["", "mlruns", "file:///tmp/x", "sqlite://", "sqlite:///:memory:", "htp://x", "http://",
     "localhost:5000", "postgresql://me:secret@db", "mysql://a/b"],
)  # fmt: skip
def test_a_malformed_uri_is_answered_with_the_choices(uri: str) -> None:
    with pytest.raises(UserError, match=r"must be sqlite:///FILE, http://HOST:PORT") as raised:
        prepare_store(uri, EXPERIMENT)
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_server_that_cannot_be_reached() -> None:
    started = time.monotonic()
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9.*is not .*--tracking-uri") as raised:
        prepare_store(NOWHERE.replace("//", "//me:secret@"), EXPERIMENT)
    assert time.monotonic() - started < 15  # seconds: MLflow's own retries take minutes
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("uri", ["http://[::1", "http://host:port", "https://no.such.host.invalid"])
def test_a_uri_that_leads_nowhere(uri: str) -> None:
    with pytest.raises(UserError, match="must be usable"):
        prepare_store(uri, EXPERIMENT)


def test_an_experiment_that_another_sweep_makes_meanwhile(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare_store(uri, EXPERIMENT)
    find, answers = MlflowClient.get_experiment_by_name, iter([True, False])
    monkeypatch.setattr(
        MlflowClient,
        "get_experiment_by_name",
        lambda client, name: None if next(answers) else find(client, name),
    )
    assert prepare_store(uri, EXPERIMENT) == first


def test_an_experiment_that_was_deleted(uri: str) -> None:
    MlflowClient(uri).delete_experiment(prepare_store(uri, EXPERIMENT))
    with pytest.raises(UserError, match="restore"):
        prepare_store(uri, EXPERIMENT)


def test_a_sweep_id_that_would_not_be_found_again(log: EventLog, uri: str) -> None:
    with pytest.raises(UserError, match="letters, digits"):
        Tracker(log, uri, EXPERIMENT, "it's")


def test_a_new_database_can_be_read_while_it_is_written(uri: str) -> None:
    with closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


TRIALS, STEPS = 4, 40


class _SlowToRemember(EventLog):
    def mark_sent(self, offset: int) -> None:
        time.sleep(0.1)
        super().mark_sent(offset)


def _sweep(folder: Path, uri: str) -> None:
    """What a driver does, from the beginning each time, as if all its trials were retried."""
    # To be killed more often in the middle of sending, and between sending and remembering it.
    tracker_module.PAUSE_SECONDS = 0.02
    log = _SlowToRemember(folder)
    tracker = Tracker(log, uri, EXPERIMENT, SWEEP)
    tracker.start()
    for event in sweep_events(TRIALS, STEPS):
        end = log.end
        log.append(event)
        time.sleep(0.02 if log.end > end else 0)
    os._exit(tracker.close(PATIENCE))


def _modified(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def _is_sending(process: BaseProcess, cursor: Path, before: int) -> bool:
    return _modified(cursor) != before or not process.is_alive()


@pytest.mark.slow
def test_a_driver_killed_at_any_moment(tmp_path: Path, uri: str) -> None:
    folder, chance = tmp_path / "sweep", random.Random(0)
    cursor = folder / "tracking.sent"
    for round_ in range(6):
        before = _modified(cursor)
        process = quick_processes().Process(target=_sweep, args=(folder, uri))
        process.start()
        if round_ % 3:  # two times in three, kill it when it is sending
            wait_for(partial(_is_sending, process, cursor, before))
        process.join(chance.uniform(0.1, 0.6))
        process.kill()
        process.join()
    process = quick_processes().Process(target=_sweep, args=(folder, uri))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0
    check_sweep(uri, TRIALS, STEPS)


def test_the_users_settings_take_precedence_over_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "77")
    with pytest.raises(UserError, match="must be usable"):
        prepare_store(NOWHERE, EXPERIMENT)
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "77"
