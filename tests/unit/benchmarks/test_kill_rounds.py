"""The checks of the kill rounds see what is lost, doubled and left running; the table resumes."""

import json
import sqlite3
import sys
from dataclasses import asdict

import pytest

from benchmarks.reliability import kill_rounds
from benchmarks.reliability.checks import (
    ended_in_study,
    examine,
    examine_requests,
    missing,
    runs_with_parameter,
)
from benchmarks.reliability.kill_rounds import Round


@pytest.fixture
def store(tmp_path):
    """A store of MLflow's tables with the columns that the checks read."""
    connection = sqlite3.connect(tmp_path / "mlflow.db")
    connection.execute("CREATE TABLE runs (run_uuid TEXT, status TEXT, lifecycle_stage TEXT)")
    connection.execute("CREATE TABLE tags (run_uuid TEXT, key TEXT, value TEXT)")
    connection.execute("CREATE TABLE metrics (run_uuid TEXT, key TEXT, step INT, value REAL)")

    def add(run, trial, steps, status="FINISHED"):
        connection.execute("INSERT INTO runs VALUES (?, ?, 'active')", (run, status))
        connection.execute("INSERT INTO tags VALUES (?, 'trial', ?)", (run, trial))
        rows = [(run, step) for step in steps]
        connection.executemany("INSERT INTO metrics VALUES (?, 'valid', ?, 0.5)", rows)
        connection.commit()

    add.path = tmp_path / "mlflow.db"
    return add


def test_a_store_that_has_everything_once(store):
    store("a", "0", [10, 20, 30])
    store("b", "1", [10])
    assert examine(store.path, 2, "valid", "trial").counts == (0, 0, 0)


def test_what_is_lost_doubled_and_left_running(store):
    store("a", "0", [10, 20, 20, 40])
    store("b", "1", [10], status="RUNNING")
    store("c", "1", [10])
    findings = examine(store.path, 3, "valid", "trial")
    assert findings.lost == ["1 of 3 trials", "trial 0: step 30"]
    assert findings.doubled == ["trial 1: 2 runs", "trial 0: step 20"]
    assert findings.running == ["trial 1"]


def test_only_the_runs_of_one_sweep_count(store):
    store("a", "0", [10])
    store("b", "0", [10])
    with sqlite3.connect(store.path) as connection:
        connection.execute("INSERT INTO tags VALUES ('b', 'sweep', 's')")
    assert examine(store.path, 1, "valid", "trial", "sweep=s").counts == (0, 0, 0)


def test_steps_come_at_equal_distances():
    assert missing([]) == []
    assert missing([5]) == []
    assert missing([20, 30]) == [10]


def journal(path, logs):
    path.write_text("".join(json.dumps(each) + "\n" for each in logs))
    return path


def test_trials_of_a_journal_that_have_ended(tmp_path):
    logs = [{"op_code": 4}, {"op_code": 4}, {"op_code": 6, "trial_id": 0, "state": 0}]
    logs += [{"op_code": 6, "trial_id": each, "state": 1} for each in (0, 1, 1)]
    assert ended_in_study(journal(tmp_path / "study.log", logs)) == 2


def test_a_trial_that_was_reopened_has_not_ended(tmp_path):
    """A study that is written anew creates its trials in the states that they have."""
    logs = [{"op_code": 4, "state": 1}, {"op_code": 4, "state": 0}, {"op_code": 4, "state": 0}]
    logs += [{"op_code": 6, "trial_id": 2, "state": 2}]
    assert ended_in_study(journal(tmp_path / "study.log", logs)) == 2


def answer(request, action="enqueue", refused=""):
    return {"event": "Controlled", "request": request, "action": action, "refused": refused}


def test_every_request_has_one_answer(tmp_path):
    journal(tmp_path / "control.jsonl", [{"id": each} for each in "abcd"])
    answers = [answer("a"), answer("b", refused="no room"), answer("c", "pause"), answer("c")]
    journal(tmp_path / "tracking.jsonl", [{"event": "SweepStarted"}, *answers])
    findings = examine_requests(tmp_path)
    assert findings.lost == ["request d has no answer"]
    assert findings.doubled == ["request c: 2 answers"]
    assert findings.enqueued == 2


def test_a_sweep_that_nobody_asked_for_anything(tmp_path):
    assert examine_requests(tmp_path) == ([], [], 0)


def test_runs_with_a_parameter(tmp_path):
    with sqlite3.connect(tmp_path / "mlflow.db") as connection:
        connection.execute("CREATE TABLE params (run_uuid TEXT, key TEXT, value TEXT)")
        rows = [("a", "rate", "0.1"), ("b", "rate", "0.1"), ("c", "rate", "0.2")]
        connection.executemany("INSERT INTO params VALUES (?, ?, ?)", rows)
    assert runs_with_parameter(tmp_path / "mlflow.db", "rate", "0.1") == 2


@pytest.mark.parametrize("life", kill_rounds.LIVES)
def test_a_life_is_resumed_by_its_command(life, tmp_path):
    """A command that had begun is resumed; one that had not is given again."""
    every = kill_rounds.commands("ours", life, tmp_path, "")
    module = "orchestrator.compare" if life == "comparison" else "orchestrator.sweep"
    assert all(command[2] == module for command in every)
    assert kill_rounds.again(every[0], 0, tmp_path) == every[0]
    plan = tmp_path / "sweeps" / "s" / "sweep.json"
    plan.parent.mkdir(parents=True)
    plan.write_text(json.dumps({"part": 0}))
    assert kill_rounds.again(every[0], 0, tmp_path)[2:] == [module, "--resume", "s"]
    for command in every[1:]:
        assert kill_rounds.again(command, 1, tmp_path) == command
        plan.write_text(json.dumps({"part": 1}))
        assert kill_rounds.again(command, 1, tmp_path)[2:] == [module, "--resume", "s"]


def test_a_round_that_is_in_the_table_is_not_run_again(tmp_path, monkeypatch, capsys):
    done = Round("ours", "driver", 0, "extension", "3.0 s", [-9, 0], [], [], [], 1.0, 60.0)
    (tmp_path / "rounds.jsonl").write_text(json.dumps(asdict(done)) + "\n")
    bad = Round("ours", "driver", 1, "promotion", "9.0 s", [None], [], [], ["trial 3"], 1.0, 60.0)
    calls = []

    def run_round(*arguments):
        calls.append(arguments[:3])
        return bad

    monkeypatch.setattr(kill_rounds, "run_round", run_round)
    words = ["kill_rounds", "--part", "driver", "--rounds", "2", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    assert kill_rounds.main() == 1
    assert calls == [("ours", "driver", 1)]
    assert "| ours | driver | 2 | 0 | 0 | 1 | 1 | 1 |" in capsys.readouterr().out


def test_a_round_without_a_kill_is_run_again_with_an_earlier_moment(monkeypatch):
    calls = []

    def run_round(stack, part, number, seed, longest):
        calls.append(longest)
        moment = "4.0 s" if longest < 10 else ""
        return Round(stack, part, number, "extension", moment, [-9, 0], [], [], [], 1.0, 60.0)

    monkeypatch.setattr(kill_rounds, "run_round", run_round)
    assert kill_rounds.run_killed("ours", "driver", 0, 0, 30.0).moment == "4.0 s"
    assert calls == [30.0, 15.0, 7.5]
    assert kill_rounds.run_killed("ours", "driver", 0, 0, 300.0).moment == ""


def test_a_round_without_a_kill_does_not_count():
    never = Round("ours", "driver", 0, "extension", "", [0, 0], [], [], [], 1.0, 60.0)
    assert "driver" not in kill_rounds.table([never])
