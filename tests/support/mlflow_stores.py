"""For the tests of tracking: the events of a sweep, and checks of what a store contains."""

import functools
import math
import multiprocessing
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.store.db.utils import InitialBase

from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import (
    Event,
    Metrics,
    SweepEnded,
    SweepStarted,
    TrialEnded,
    TrialStarted,
)
from orchestrator.tracking.mlflow_store import prepare_store
from orchestrator.tracking.sqlite_store import database_file
from orchestrator.tracking.tracker import Tracker

EXPERIMENT, SWEEP = "tardis", "ptb-1"
PATIENCE = 180  # seconds: the machine may be busy with something else


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not hold within {PATIENCE} s"
        time.sleep(0.01)


def quick_processes() -> multiprocessing.context.ForkServerContext:
    """Processes that are forked with MLflow and its server imported, which takes seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["orchestrator.tracking.tracker", "tests.support.mlflow_server"])
    return context


def fresh_sqlite(folder: Path, factory: pytest.TempPathFactory) -> str:
    """The URI of an empty SQLite store, copied from a template: creating one takes seconds."""
    base = factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base  # by the workers of xdist
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(_template(shared / "mlflow-template" / "mlflow.db"), folder / "mlflow.db")
    return f"sqlite:///{folder / 'mlflow.db'}"


@functools.cache
def _template(path: Path) -> Path:
    """An empty store, created once per test run."""
    if not path.exists():
        _create_by_two_processes(f"sqlite:///{path}")
    prepare_store(f"sqlite:///{path}", "template")  # waits if another worker is creating it
    return path


def create_half(database: Path) -> None:
    """The first tables of a store, which MLflow alone could never open again."""
    database.parent.mkdir(parents=True, exist_ok=True)
    engine = sqlalchemy.create_engine(f"sqlite:///{database}")
    InitialBase.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE alembic_version (version_num TEXT)"))
        connection.execute(sqlalchemy.text("INSERT INTO alembic_version VALUES ('451aebb31d03')"))
    engine.dispose()


def _create_by_two_processes(uri: str) -> None:
    """Create a store as two drivers that start together would, where MLflow alone would fail.

    A half-made one is in their way, as a driver leaves it that is killed while MLflow creates it.
    """
    create_half(database_file(uri))
    make = quick_processes().Process
    processes = [make(target=prepare_store, args=(uri, "template")) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]


def step_values(number: int, step: int) -> dict[str, float]:
    """The metrics of a trial at a step, including unusual values."""
    return {
        "valid_bpc": 1.5 + number / 3 + 1 / (step + 3),
        "constant": 0.1,
        "odd": (math.nan, math.inf, -math.inf, -0.0)[step % 4],
    }


def sweep_events(trials: int, steps: int) -> list[Event]:
    """The events of a whole sweep with concurrent trials."""
    events: list[Event] = [SweepStarted("ptb sweep", {"task": "ptb"}, {"trials": trials})]
    events += [TrialStarted(n, {"memory.cells": 16 + n}) for n in range(trials)]
    for step in range(steps):
        events += [Metrics(n, step, step_values(n, step)) for n in range(trials)]
    events += [TrialEnded(n, "FINISHED") for n in range(trials)]
    return [*events, SweepEnded("FINISHED")]


def runs_of(uri: str, sweep_id: str = SWEEP) -> dict[int | None, Run]:
    """The runs of a sweep by trial number, None for the parent; fails if a run exists twice."""
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
    points_by_metric = {}
    for key in run.data.metrics:
        points = client.get_metric_history(run.info.run_id, key)
        points_by_metric[key] = sorted((point.step, point.value) for point in points)
    return points_by_metric


def check_sweep(uri: str, trials: int, steps: int, sweep_id: str = SWEEP) -> None:
    """Check that the store has `sweep_events`, each run and step once, and nothing is running."""
    runs = runs_of(uri, sweep_id)
    assert runs.keys() == {None, *range(trials)}
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    parent = runs.pop(None)
    assert parent.info.run_name == "ptb sweep"
    for number, run in runs.items():
        assert number is not None
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert run.data.params == {"memory.cells": str(16 + number)}
        recorded = history(uri, run)
        for name in ("valid_bpc", "constant"):
            expected = [(step, step_values(number, step)[name]) for step in range(steps)]
            assert recorded[name] == expected, f"{name} of trial {number}"
        assert sorted(step for step, _ in recorded["odd"]) == list(range(steps))


def record(log: EventLog, uri: str, *events: Event, sweep_id: str = SWEEP) -> Tracker:
    """Append the events and wait until all are delivered."""
    tracker = Tracker(log, uri, EXPERIMENT, sweep_id)
    log.append(*events)
    tracker.start()
    assert tracker.close(PATIENCE) == 0, tracker.last_error
    return tracker
