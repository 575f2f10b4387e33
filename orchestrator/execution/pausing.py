"""The end of trials that wait for a promotion which cannot come any more."""

from optuna.trial import TrialState

from orchestrator.execution import study
from orchestrator.execution.result import OBJECTIVE
from orchestrator.execution.schedulers.base import SCHEDULERS, Rule
from orchestrator.planning.plan import SearchPlan, SweepPlan
from orchestrator.tracking.event_log import open_log
from orchestrator.tracking.recorder import Recorder
from orchestrator.tracking.states import State


def end_paused(plan: SweepPlan) -> None:
    """End all paused trials as pruned, if nothing is left to run or to promote.

    It depends on the study alone: a driver that is killed here does the rest when it is resumed.
    """
    if not isinstance(plan, SearchPlan) or not plan.pauses:
        return
    trials = study.study_trials(plan.folder, plan.name)
    scheduler = SCHEDULERS.get(plan.scheduler)(Rule(plan.mode, plan.reports, plan.grace))
    scheduler.recall(trials)
    open_trials = [each for each in trials if each.state is TrialState.RUNNING]
    started = sum(each.state is not TrialState.WAITING for each in trials)
    if (
        started < plan.trials
        or {each.number for each in open_trials} != scheduler.paused
        or scheduler.promotable(closing=True) is not None
    ):
        return
    recorder = Recorder(open_log(plan.folder))
    for trial in open_trials:
        value = trial.intermediate_values[max(trial.intermediate_values)]
        recorder.ended(trial.number, State.PRUNED, {OBJECTIVE: str(value)})
        study.tell_pruned(plan.folder, plan.name, trial.number)
