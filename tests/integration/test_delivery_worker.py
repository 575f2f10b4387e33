"""Tracking in a process of its own: it may die, and it does not outlive the driver."""

import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from orchestrator.tracking.delivery import Store
from orchestrator.tracking.delivery_worker import DeliveryProcess
from orchestrator.tracking.event_log import open_log
from orchestrator.tracking.tracker import Tracker
from tests.support.mlflow_stores import (
    EXPERIMENT,
    PATIENCE,
    SWEEP,
    check_sweep,
    fresh_sqlite,
    quick_processes,
    sweep_events,
    wait_for,
)


def drive(folder: Path, answers: Connection) -> None:
    """A driver that starts a delivery, says which process that is, and goes on."""
    delivery = DeliveryProcess(folder, Store("sqlite:///nowhere.db", "x"), "s")
    answers.send(delivery._process.pid)
    time.sleep(600)


def test_a_delivery_that_is_killed_is_replaced_and_nothing_is_lost_or_twice(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    uri = fresh_sqlite(tmp_path / "store", tmp_path_factory)
    log = open_log(tmp_path / "sweep")
    tracker = Tracker(log, uri, EXPERIMENT, SWEEP, separate_process=True)
    tracker.start()
    events = sweep_events(trials=2, steps=6)
    log.append(*events[:5])
    assert tracker.flush(PATIENCE) == 0
    os.kill(tracker._delivery._process.pid, signal.SIGKILL)
    log.append(*events[5:])
    assert tracker.close(PATIENCE) == 0
    log.close()
    check_sweep(uri, trials=2, steps=6)


def test_a_delivery_ends_with_its_driver(tmp_path: Path) -> None:
    processes = quick_processes()
    answers, to_test = processes.Pipe(duplex=False)
    driver = processes.Process(target=drive, args=(tmp_path, to_test))
    driver.start()
    pid = answers.recv()
    assert _runs(pid)
    driver.kill()
    driver.join()
    wait_for(lambda: not _runs(pid))


def test_a_delivery_gives_way_from_its_start_in_the_session_of_its_driver(tmp_path: Path) -> None:
    delivery = DeliveryProcess(tmp_path, Store("sqlite:///nowhere.db", "x"), "s")
    pid = delivery._process.pid
    try:
        assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getsid(pid) == os.getsid(0)  # niceness counts only within a session
        assert os.getpgid(pid) != os.getpgid(0)  # Ctrl-C does not reach it
    finally:
        delivery.close()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
