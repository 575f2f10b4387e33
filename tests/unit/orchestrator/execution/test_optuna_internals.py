"""What is relied on of Optuna's private parts; if one of these fails, Optuna has changed."""

import optuna
import pytest
from optuna.trial import TrialState

from orchestrator.execution import optuna_internals


@pytest.fixture
def study():
    return optuna.create_study()


def test_a_trial_is_seen_as_the_storage_has_it(study):
    trial = study.ask()
    trial.suggest_float("x", 0, 1)
    trial.report(0.5, 1)
    stored = optuna_internals.stored(trial)
    assert (stored.number, stored.state) == (0, TrialState.RUNNING)
    assert stored.intermediate_values == {1: 0.5}
    study.tell(trial, 0.25)
    stored = optuna_internals.stored(trial)
    assert (stored.state, stored.value) == (TrialState.COMPLETE, 0.25)


def test_a_trial_that_another_process_asked_for_can_be_continued(study):
    x = study.ask().suggest_float("x", 0, 1)
    (frozen,) = study.get_trials(deepcopy=False)
    trial = optuna_internals.reopen(study, frozen)
    assert trial.number == 0
    assert trial.suggest_float("x", 0, 1) == x  # as it was proposed
    study.tell(trial, 0.5)
    assert study.best_value == 0.5


def test_the_point_of_an_enqueued_trial_is_known_apart_from_what_was_drawn(study):
    study.enqueue_trial({"x": 0.25})
    trial = study.ask()
    trial.suggest_float("x", 0, 1)
    trial.suggest_float("y", 0, 1)
    assert optuna_internals.enqueued_point(trial) == {"x": 0.25}
    assert optuna_internals.enqueued_point(study.ask()) == {}
