"""Facts about trials become events, each once."""

import pytest

from orchestrator.tracking.event_log import EventLog, ended_trials
from orchestrator.tracking.events import Metrics, TrialEnded, TrialStarted
from orchestrator.tracking.recorder import LONGEST_ERROR, Recorder
from orchestrator.tracking.states import State


@pytest.fixture
def log(tmp_path):
    log = EventLog(tmp_path)
    yield log
    log.close()


@pytest.fixture
def recorder(log):
    return Recorder(log)


def recorded(log):
    return [event for event, _ in log.read(0)]


def test_a_trial_from_start_to_end(log, recorder):
    recorder.started(2, {"memory.cells": 8}, {"candidate": "lstm"})
    recorder.measured(2, [{"update": 10, "valid_bpc": 2.0}, {"update": 20, "valid_bpc": 1.5}])
    recorder.measured(2, [{"update": 20, "valid_bpc": 1.5}])  # repeated by a resumed trial
    recorder.ended(2, State.COMPLETE, {"device": "cpu"})
    start, first, second, end = recorded(log)
    assert isinstance(start, TrialStarted)
    assert (start.params, start.tags) == ({"memory.cells": "8"}, {"candidate": "lstm"})
    assert isinstance(first, Metrics)
    assert (first.step, first.values, second.step) == (10, {"valid_bpc": 2.0}, 20)
    assert isinstance(end, TrialEnded)
    assert (end.status, end.tags) == ("FINISHED", {"device": "cpu"})


def test_metrics_of_the_whole_trial_stand_in_the_last_row(log, recorder):
    recorder.started(0, {})
    rows = [{"update": 10, "valid_bpc": 2.0}, {"update": 20, "valid_bpc": 1.5}]
    recorder.measured(0, rows, {"best_bpc": 1.5})
    _, first, last = recorded(log)
    assert first.values == {"valid_bpc": 2.0}
    assert last.values == {"valid_bpc": 1.5, "best_bpc": 1.5}


def test_a_failure_has_its_reason_without_passwords_and_of_bounded_length(log, recorder):
    recorder.started(0, {})
    recorder.ended(0, State.FAILED, {}, "no http://me:hunter2@there " + "x" * 5000)
    *_, end = recorded(log)
    assert end.status == "FAILED"
    assert end.tags["error"].startswith("no http://me:***@there xxx")
    assert len(end.tags["error"]) == LONGEST_ERROR == 4000


def test_an_end_that_only_the_study_knows_is_recorded(log, recorder):
    for number in range(3):
        recorder.started(number, {})
    recorder.ended(0, State.COMPLETE, {})
    states = {
        0: (State.FAILED, {}),
        1: (State.PRUNED, {"objective": "0.5"}),
        2: (State.RUNNING, {}),
        3: (State.COMPLETE, {}),  # never started here
    }
    recorder.catch_up(states)
    ends = [event for event in recorded(log) if isinstance(event, TrialEnded)]
    assert [(end.number, State.from_event(end)) for end in ends] == [
        (0, State.COMPLETE),
        (1, State.PRUNED),
    ]
    assert ends[1].tags["objective"] == "0.5"
    assert log.open_trials() == [2]


def test_ended_trials_are_those_with_nothing_left_to_do(log, recorder, tmp_path):
    assert ended_trials(tmp_path / "no sweep") == []
    for number, state in enumerate([State.COMPLETE, State.STOPPED, State.PRUNED, State.FAILED]):
        recorder.started(number, {})
        recorder.ended(number, state, {})
    recorder.started(4, {})
    assert log.ended_trials() == ended_trials(tmp_path) == [0, 2, 3]
    recorder.started(2, {})  # resumed
    assert log.ended_trials() == ended_trials(tmp_path) == [0, 3]
