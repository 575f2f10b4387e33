"""ASHA that remembers, after a restart, what was reported before."""

from types import SimpleNamespace

import optuna
import pytest
from ray.tune.schedulers import TrialScheduler

from orchestrator.execution.result import OBJECTIVE
from orchestrator.execution.schedulers.asha import Asha
from orchestrator.execution.schedulers.base import Rule

STOP, CONTINUE = TrialScheduler.STOP, TrialScheduler.CONTINUE


def trial(number, ray_id="t"):
    return SimpleNamespace(trial_id=f"{ray_id}{number}", config={"number": number})


def report(asha, number, step, value, ray_id="t"):
    result = {OBJECTIVE: value, "training_iteration": step}
    return asha.on_trial_result(None, trial(number, ray_id), result)


def new_asha(mode="min", ray_id="t", grace=1 / 9):
    asha = Asha(Rule(mode, 9, grace))
    for number in range(6):
        asha.on_trial_add(None, trial(number, ray_id))
    return asha


@pytest.fixture
def asha():
    return new_asha()


def study_of(reports, ended=(), direction="minimize"):
    """A study with these results, by trial number."""
    study = optuna.create_study(direction=direction)
    for values in reports:
        asked = study.ask()
        for step, value in enumerate(values, start=1):
            asked.report(value, step)
    for number in ended:
        study.tell(number, state=optuna.trial.TrialState.PRUNED)
    return study.get_trials()


def test_the_worst_are_stopped_at_a_rung(asha):
    for number in range(3):
        report(asha, number, 1, 1.0)
    assert report(asha, 3, 1, 9.0) == STOP
    assert report(asha, 4, 1, 0.1) == CONTINUE


@pytest.mark.parametrize(("grace", "first"), [(0.0, 1), (1 / 9, 1), (0.5, 4), (0.7, 6)])
def test_no_trial_is_stopped_before_its_grace_is_over(grace, first):
    asha = new_asha(grace=grace)
    for step in range(1, first + 1):
        for number in range(3):
            report(asha, number, step, 1.0)
        assert report(asha, 3, step, 9.0) == (STOP if step == first else CONTINUE)


def test_with_grace_to_the_end_no_trial_is_stopped_before_it():
    asha = new_asha(grace=1.0)
    for step in range(1, 9):
        for number in range(3):
            report(asha, number, step, 1.0)
        assert report(asha, 3, step, 9.0) == CONTINUE


def test_a_trial_runs_to_its_own_end(asha):
    assert report(asha, 0, 9, 1.0) == CONTINUE


@pytest.mark.parametrize(("mode", "direction"), [("min", "minimize"), ("max", "maximize")])
def test_its_rungs_come_back_from_the_study(mode, direction):
    reports = [[3.0, 2.5, 2.0, 1.9], [3.1], [2.9, 2.8, 2.7], [2.0] * 9]
    before = new_asha(mode)
    for number, values in enumerate(reports):
        for step, value in enumerate(values, start=1):
            report(before, number, step, value)
    assert set(before.rungs()) == {1, 3, 9}
    after = new_asha(mode, ray_id="another")
    after.recall(study_of(reports, direction=direction))
    assert after.rungs() == before.rungs()
    for value in (0.1, 2.95, 9.0):
        assert report(after, 4, 1, value) == report(before, 4, 1, value)


def test_a_trial_that_repeats_its_reports_under_another_id_counts_once(asha):
    reports = [[3.0, 2.0, 1.0], [3.0, 2.0]]
    asha.recall(study_of(reports))
    rungs = asha.rungs()
    asha.on_trial_add(None, trial(1, "another"))
    for step, value in enumerate(reports[1], start=1):
        assert report(asha, 1, step, value, "another") == CONTINUE
    assert asha.rungs() == rungs


def test_a_trial_that_ends_is_forgotten_but_for_its_rungs(asha):
    report(asha, 0, 1, 1.0)
    asha.on_trial_complete(None, trial(0), {OBJECTIVE: 0.5, "training_iteration": 3})
    asha.on_trial_remove(None, trial(1))
    assert asha.rungs()[3] == {0: 0.5}
