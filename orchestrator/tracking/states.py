"""The states of a trial: the one mapping between Optuna, MLflow and the words that people read."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from orchestrator.tracking.events import Status, TrialEnded

STATE_TAG = "state"  # in words, for everyone who looks at the runs in MLflow
PAUSED = "paused"  # the word for a trial that has not ended and waits for its promotion
PRUNED_TAG, INTERRUPTED_TAG, ERROR_TAG = "pruned", "interrupted", "error"
STOPPED_BY_TAG = "stopped_by"  # of a trial that somebody has stopped: it is pruned, not failed
ENDING_TAGS = (ERROR_TAG, PRUNED_TAG, INTERRUPTED_TAG)  # removed when a trial is resumed


class _Named(Protocol):
    """A member of Optuna's enum of states, without importing Optuna."""

    @property
    def name(self) -> str: ...


class State(StrEnum):
    """What has become of a trial; the value is the word in tables and on the terminal."""

    RUNNING = "running"
    COMPLETE = "complete"  # trained to its end
    PRUNED = "pruned"  # stopped early by the scheduler
    FAILED = "failed"
    STOPPED = "stopped"  # interrupted with its sweep; `--resume` continues it

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do for the trial."""
        return self in (State.COMPLETE, State.PRUNED, State.FAILED)

    @property
    def mlflow_status(self) -> str:
        """The status of the trial's run in MLflow."""
        return "RUNNING" if self is State.RUNNING else _STATUS[self]

    def event(self, number: int, tags: Mapping[str, str]) -> TrialEnded:
        """The event that records the end of a trial in this state."""
        marks = {PRUNED_TAG: "true"} if self is State.PRUNED else {}
        return TrialEnded(number, _STATUS[self], {**tags, **marks})

    @classmethod
    def from_event(cls, event: TrialEnded) -> "State":
        """The state in which a trial ended, as the log has it.

        The tag decides: older versions recorded pruned trials as KILLED.
        """
        if PRUNED_TAG in event.tags:
            return cls.PRUNED
        ends = {"FINISHED": cls.COMPLETE, "FAILED": cls.FAILED, "KILLED": cls.STOPPED}
        return ends[event.status]

    @property
    def optuna_name(self) -> str:
        """The name of the state in Optuna's `TrialState`."""
        return _OPTUNA.get(self, "RUNNING")

    @classmethod
    def from_optuna(cls, state: _Named) -> "State":
        """The state of a trial, as the study has it."""
        names = {name: ours for ours, name in _OPTUNA.items()}
        return names.get(state.name, cls.RUNNING)


_STATUS: dict[State, Status] = {
    State.COMPLETE: "FINISHED",
    State.PRUNED: "FINISHED",  # MLflow shows anything else as a failure
    State.STOPPED: "KILLED",
    State.FAILED: "FAILED",
}
_OPTUNA = {State.COMPLETE: "COMPLETE", State.PRUNED: "PRUNED", State.FAILED: "FAIL"}
