"""What the tests of tracking share: a sweep to record, and a look at what a store holds of it."""

import math
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from orchestrator.event_log import EventLog
from orchestrator.events import Event, Metrics, SweepEnded, SweepStarted, TrialEnded, TrialStarted
from orchestrator.mlflow_store import prepare_store
from orchestrator.tracking import Tracker

EXPERIMENT, SWEEP = "tardis", "ptb-1"
PATIENCE = 180  # seconds for what takes one, on a machine that may be busy with something else


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def quick_processes() -> multiprocessing.context.ForkServerContext:
    """Processes that need not import MLflow, which takes seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["orchestrator.tracking"])
    return context


def fresh_sqlite(folder: Path, factory: pytest.TempPathFactory) -> str:
    """The URI of an empty SQLite store, copied from one that is made once: that takes seconds."""
    base = factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base  # of xdist's workers
    template = shared / "mlflow-template" / "mlflow.db"
    if not template.exists():
        _made_by_two_at_once(f"sqlite:///{template}")
    prepare_store(f"sqlite:///{template}", "template")  # waits, if another worker is making it
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(template, folder / "mlflow.db")
    return f"sqlite:///{folder / 'mlflow.db'}"


def _made_by_two_at_once(uri: str) -> None:
    """Make a store as two drivers would that start together, where MLflow itself would fail."""
    make = quick_processes().Process
    processes = [make(target=prepare_store, args=(uri, "template")) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A real `mlflow server` that can be killed, held up and started again."""

    def __init__(
        self,
        store: str,
        folder: Path,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.store, self.folder, self.port = store, folder, free_port()
        self._options, self._environment = options, environment or {}
        self.uri = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, without waiting until it answers."""
        command = [sys.executable, "-m", "mlflow", "server", "--workers", "1"]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--backend-store-uri", self.store]
        command += ["--artifacts-destination", str(self.folder / "artifacts"), *self._options]
        with open(self.folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                env={
                    **os.environ,
                    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                    **self._environment,
                },
                stdout=log,
                stderr=log,
                start_new_session=True,  # its workers get the signals, too
            )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start it, and kill it at the end."""
        self.start()
        try:
            self.wait()
            yield
        finally:
            self.kill()

    def wait(self) -> None:
        """Wait until it answers."""
        wait_for(self._answers)

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.uri}/health", timeout=1).close()
            return True
        except OSError:
            time.sleep(0.2)
            return False

    def signal(self, number: int) -> None:
        """Send a signal to it and its workers."""
        if self._process is not None:
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """As pulling the plug."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)
        self._process = None


def step_values(number: int, step: int) -> dict[str, float]:
    """What the trial measures at the step, the unusual included."""
    return {
        "valid_bpc": 1.5 + number / 3 + 1 / (step + 3),
        "constant": 0.1,
        "odd": (math.nan, math.inf, -math.inf, -0.0)[step % 4],
    }


def sweep_events(trials: int, steps: int) -> list[Event]:
    """A whole sweep, its trials in turn."""
    events: list[Event] = [SweepStarted("ptb sweep", {"task": "ptb"}, {"trials": trials})]
    events += [TrialStarted(n, {"memory.cells": 16 + n}) for n in range(trials)]
    for step in range(steps):
        events += [Metrics(n, step, step_values(n, step)) for n in range(trials)]
    events += [TrialEnded(n, "FINISHED") for n in range(trials)]
    return [*events, SweepEnded("FINISHED")]


def runs_of(uri: str, sweep_id: str = SWEEP) -> dict[int | None, Run]:
    """The runs of a sweep by trial number, None for the parent; fails if there are two of one."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], f"tags.`tardis.sweep_id` = '{sweep_id}'")
    numbers = [run.data.tags.get("tardis.trial") for run in runs]
    assert max(Counter(numbers).values(), default=1) == 1, f"a run twice: {Counter(numbers)}"
    return {None if n is None else int(n): run for n, run in zip(numbers, runs, strict=True)}


def history(uri: str, run: Run) -> dict[str, list[tuple[int, float]]]:
    """All (step, value) of each metric of a run, in order."""
    client = MlflowClient(uri)
    found = {}
    for key in run.data.metrics:
        points = client.get_metric_history(run.info.run_id, key)
        found[key] = sorted((point.step, point.value) for point in points)
    return found


def check_sweep(uri: str, trials: int, steps: int, sweep_id: str = SWEEP) -> None:
    """The store holds `sweep_events`: each run and each step exactly once, and none is running."""
    runs = runs_of(uri, sweep_id)
    assert runs.keys() == {None, *range(trials)}
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    parent = runs.pop(None)
    assert parent.info.run_name == "ptb sweep"
    for number, run in runs.items():
        assert number is not None
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert run.data.params == {"memory.cells": str(16 + number)}
        found = history(uri, run)
        for name in ("valid_bpc", "constant"):
            expected = [(step, step_values(number, step)[name]) for step in range(steps)]
            assert found[name] == expected, f"{name} of trial {number}"
        assert sorted(step for step, _ in found["odd"]) == list(range(steps))


def record(log: EventLog, uri: str, *events: Event, sweep_id: str = SWEEP) -> Tracker:
    """Append the events and have them all delivered."""
    tracker = Tracker(log, uri, EXPERIMENT, sweep_id)
    log.append(*events)
    tracker.start()
    assert tracker.close(PATIENCE) == 0, tracker.last_error
    return tracker
