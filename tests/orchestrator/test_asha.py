"""ASHA that comes back from a snapshot as it was, and keeps to what was decided since."""

import pickle
from types import SimpleNamespace

import pytest
from ray.tune.schedulers import TrialScheduler

from orchestrator.asha import Asha
from orchestrator.search import OBJECTIVE

STOP, CONTINUE = TrialScheduler.STOP, TrialScheduler.CONTINUE


def trial(number):
    return SimpleNamespace(trial_id=f"t{number}", config={"number": number})


def report(asha, number, step, value):
    return asha.on_trial_result(None, trial(number), {OBJECTIVE: value, "training_iteration": step})


@pytest.fixture
def asha():
    made = Asha("min", reports=9)
    for number in range(6):
        made.on_trial_add(None, trial(number))
    return made


def test_the_worst_are_stopped_at_a_rung(asha):
    for number in range(3):
        report(asha, number, 1, 1.0)
    assert report(asha, 3, 1, 9.0) == STOP
    assert report(asha, 4, 1, 0.1) == CONTINUE


def test_a_trial_runs_to_its_own_end(asha):
    assert report(asha, 0, 9, 1.0) == CONTINUE


def test_its_state_survives_a_snapshot(asha):
    for number, value in enumerate([1.0, 2.0, 3.0]):
        report(asha, number, 1, value)
    snapshot = pickle.dumps(asha.state())
    other = Asha("min", reports=9)
    other.restore_state(pickle.loads(snapshot), frozenset())
    assert other.rungs() == asha.rungs()
    assert any(recorded for _, recorded in other.rungs())
    assert report(other, 3, 1, 9.0) == report(asha, 3, 1, 9.0) == STOP


def test_what_the_study_had_as_ended_is_stopped_at_its_next_report(asha):
    asha.restore_state(asha.state(), frozenset({2}))
    assert report(asha, 2, 1, 0.0) == STOP
    assert report(asha, 1, 1, 0.0) == CONTINUE
