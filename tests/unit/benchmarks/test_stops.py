"""The benchmark of stops notices what differs from the promise, and prints what it measured."""

import sqlite3

import pytest

from benchmarks.reliability.stops import Stop, difference, table


@pytest.fixture
def stopped(tmp_path):
    """A folder that a stopped sweep has left, with a trial in some state."""

    def make(status: str = "KILLED", output: str = "continue with: --resume s"):
        (tmp_path / "sweeps" / "s").mkdir(parents=True)
        (tmp_path / "sweeps" / "s" / "sweep.json").write_text("{}")
        (tmp_path / "output.txt").write_text(output)
        with sqlite3.connect(tmp_path / "mlflow.db") as store:
            store.execute("CREATE TABLE runs (run_uuid, status, lifecycle_stage)")
            store.execute("CREATE TABLE tags (run_uuid, key, value)")
            store.execute("CREATE TABLE metrics (run_uuid, key, step, value)")
            store.execute("INSERT INTO runs VALUES ('a', ?, 'active')", (status,))
            store.execute("INSERT INTO tags VALUES ('a', 'tardis.trial', '0')")
        return tmp_path

    return make


def test_a_clean_stop_differs_in_nothing(stopped):
    assert difference(stopped(), 143, "SIGTERM") == ""


@pytest.mark.parametrize(
    ("left", "code", "problem"),
    [
        ({"status": "RUNNING"}, 143, "left running: trial 0"),
        ({"output": "Traceback ..."}, 143, "a traceback"),
        ({"output": "ended"}, 143, "no word of how to resume"),
        ({}, -6, "ended by signal 6"),
        ({}, 130, "exit code 130"),
    ],
)
def test_what_differs_is_named(stopped, left, code, problem):
    assert difference(stopped(**left), code, "SIGTERM") == problem


def test_a_sweep_that_had_not_begun_leaves_nothing_to_resume(tmp_path):
    (tmp_path / "output.txt").write_text("")
    assert difference(tmp_path, 129, "SIGHUP") == ""


def test_the_table_has_the_seconds_of_every_round():
    stops = [
        Stop("training", "group", "SIGTERM", 2, seconds, 143, wrong)
        for seconds, wrong in ((1.26, ""), (3.0, "exit code 1"))
    ]
    last = table(stops).splitlines()[-1]
    assert last == "| training | SIGTERM, twice | group | 143 | 1.3, 3.0 | exit code 1 |"
