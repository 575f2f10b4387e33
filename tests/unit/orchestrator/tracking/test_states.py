"""Trial states: one mapping between Optuna, MLflow and words."""

import pytest
from optuna.trial import TrialState

from orchestrator.tracking.events import TrialEnded
from orchestrator.tracking.states import PRUNED_TAG, State


@pytest.mark.parametrize(
    ("optuna_state", "state", "status"),
    [
        (TrialState.COMPLETE, State.COMPLETE, "FINISHED"),
        (TrialState.PRUNED, State.PRUNED, "FINISHED"),
        (TrialState.FAIL, State.FAILED, "FAILED"),
        (TrialState.RUNNING, State.RUNNING, "RUNNING"),
        (TrialState.WAITING, State.RUNNING, "RUNNING"),
    ],
)
def test_optuna_to_mlflow(optuna_state, state, status):
    assert State.from_optuna(optuna_state) is state
    assert state.mlflow_status == status
    assert state.ended == optuna_state.is_finished()
    if state.ended:
        assert TrialState[state.optuna_name] is optuna_state


def test_every_state_of_optuna_is_mapped():
    assert {State.from_optuna(each) for each in TrialState} == set(State) - {State.STOPPED}


@pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
def test_the_log_gives_back_the_state_that_was_recorded(state):
    event = state.event(3, {"device": "cpu"})
    assert (event.number, event.tags["device"]) == (3, "cpu")
    assert State.from_event(event) is state
    assert event.status == state.mlflow_status
    assert (PRUNED_TAG in event.tags) == (state is State.PRUNED)


def test_pruned_trials_of_older_logs_are_still_pruned():
    assert State.from_event(TrialEnded(3, "KILLED", {PRUNED_TAG: "true"})) is State.PRUNED


def test_a_stopped_trial_has_not_ended():
    assert not State.STOPPED.ended
