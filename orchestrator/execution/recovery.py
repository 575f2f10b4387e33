"""Trials that the event log has lost, from what the study, the checkpoints and MLflow have."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial

from orchestrator.execution.callbacks import end_of
from orchestrator.execution.checkpoints import CHECKPOINT, checkpoints_of, experiments
from orchestrator.execution.study import study_trials
from orchestrator.planning.configs import params_of_config
from orchestrator.planning.plan import SearchPlan, SweepPlan
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Event, TrialStarted
from orchestrator.tracking.recorder import Recorder
from orchestrator.tracking.states import State
from tardis_core.config import config_from_dict
from tardis_core.errors import UserError
from tardis_core.training import checkpoint


def check_complete(plan: SweepPlan, log: EventLog) -> None:
    """Raise `UserError` if the log lacks trials that the study or the storage has."""
    if lost := lost_trials(plan, log):
        shown = ", ".join(map(str, lost[:5])) + (", ..." if len(lost) > 5 else "")
        raise UserError(
            f"{log.path} lacks trials of the study or the storage ({shown}); rebuild it with: "
            f"python -m orchestrator.doctor {plan.name} --fix"
        )


def lost_trials(plan: SweepPlan, log: EventLog) -> list[int]:
    """Trials that have measured something, or have ended, and are not in the log."""
    return sorted(_others_know(plan) - log.trials())


def _others_know(plan: SweepPlan) -> set[int]:
    if isinstance(plan, SearchPlan):
        trials = study_trials(plan.folder, plan.name)
        return {each.number for each in trials if each.intermediate_values or _ended(each)}
    if not experiments(plan.ray_storage):
        return set()
    return {each for each in range(plan.trials) if checkpoints_of(plan.ray_storage, each)}


def _ended(trial: FrozenTrial) -> bool:
    return State.from_optuna(trial.state).ended


def recover(plan: SweepPlan, log: EventLog, in_mlflow: Mapping[int, Sequence[Event]]) -> list[str]:
    """Add what the log has lost; returns what could not be recovered, one sentence each.

    Args:
        in_mlflow: the events of each trial that MLflow has.
    """
    studied = (
        {each.number: each for each in study_trials(plan.folder, plan.name)}
        if isinstance(plan, SearchPlan)
        else {}
    )
    sentences = []
    for number in sorted(log.trials() | in_mlflow.keys() | _others_know(plan)):
        before, frozen = log.state(number), studied.get(number)
        log.append(*in_mlflow.get(number, ()))
        if not before.ended or (frozen and log.steps(number) < len(frozen.intermediate_values)):
            _add_checkpoint(plan, log, number)
        if before.ended:  # a metric that was added has reopened it
            log.append(before.event(number, {}))
        if frozen is not None:
            sentences += _add_study(log, number, frozen)
    return sentences


def _add_checkpoint(plan: SweepPlan, log: EventLog, number: int) -> None:
    """Add the history of validations that the last whole checkpoint of a trial has."""
    for saved in checkpoints_of(plan.ray_storage, number):
        try:
            with saved.as_directory() as folder:
                state = checkpoint.load(Path(folder) / CHECKPOINT)
        except UserError:
            continue
        if number not in log.trials():
            log.append(TrialStarted(number, _params(state)))
        Recorder(log).measured(number, state["history"])
        return


def _params(state: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a trial; one of several seeds is known by its first."""
    return params_of_config(config_from_dict(state.get("seeds", [state])[0]["config"]))


def _add_study(log: EventLog, number: int, trial: FrozenTrial) -> list[str]:
    """Add that a trial has ended, if only the study knows; what is missing then, in words."""
    if number not in log.trials() and (trial.intermediate_values or _ended(trial)):
        log.append(TrialStarted(number, trial.params))
    state, tags = end_of(trial)
    if state.ended:
        Recorder(log).ended(number, state, tags)
    measured, known = len(trial.intermediate_values), log.steps(number)
    if known >= measured:
        return []
    return [f"{measured - known} of {measured} validations of trial {number} are lost"]
