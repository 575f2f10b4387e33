"""The doctor finds what disagrees."""

from contextlib import closing

import pytest

from orchestrator.doctor import (
    Account,
    account_of_log,
    as_in_study,
    compare_mlflow,
    compare_status,
    main,
    parser,
)
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Metrics, TrialEnded, TrialStarted
from orchestrator.tracking.states import State


@pytest.fixture
def log(tmp_path):
    log = EventLog(tmp_path)
    log.append(
        TrialStarted(0), Metrics(0, 10, {"valid_bpc": 1.0}), Metrics(0, 20, {"valid_bpc": 0.5})
    )
    log.append(TrialEnded(0, "FINISHED"), TrialStarted(1))
    yield account_of_log(log)
    log.close()


def test_the_log_says_what_is_to_be_expected(log):
    assert log == Account({0: "FINISHED", 1: "RUNNING"}, {0: [10, 20], 1: []})


def test_a_store_that_agrees(log):
    assert compare_mlflow(log, Account(dict(log.status), dict(log.steps))) == []


def test_a_store_that_lacks_and_repeats_steps(log):
    mlflow = Account(dict(log.status), {0: [20, 20], 1: []}, duplicates=[1])
    assert compare_mlflow(log, mlflow) == [
        "MLflow has trial 1 more than once",
        "MLflow lacks 1 of 2 steps of trial 0",
        "MLflow has 1 steps of trial 0 too many",
    ]


def test_a_status_that_differs_or_is_missing(log):
    assert compare_status("Optuna", {0: "KILLED"}, log.status) == [
        "Optuna has trial 0 as KILLED, the log as FINISHED",
        "Optuna has trial 1 as unknown, the log as RUNNING",
    ]


def test_a_trial_that_was_stopped_runs_on_in_the_study(tmp_path):
    with closing(EventLog(tmp_path)) as log:
        log.append(TrialStarted(0), State.COMPLETE.event(0, {}))
        log.append(TrialStarted(1), State.STOPPED.event(1, {"interrupted": "true"}))
        expected = as_in_study(account_of_log(log))
    assert compare_status("Optuna", {0: "FINISHED", 1: "RUNNING"}, expected) == []
    assert compare_status("Optuna", {0: "RUNNING", 1: "FINISHED"}, expected) == [
        "Optuna has trial 0 as RUNNING, the log as FINISHED",
        "Optuna has trial 1 as FINISHED, the log as RUNNING",
    ]


def test_it_wants_a_sweep_or_gpus(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([]) == 2
    assert "name a sweep (there are none here), or use --gpu" in capsys.readouterr().err


def test_the_help_says_all_that_fix_changes():
    text = " ".join(parser().format_help().split())
    assert "move damaged lines of the log and the study to files of their own, rebuild" in text
