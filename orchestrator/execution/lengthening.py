"""A search that is extended: trials that had ended are reopened to train longer, all in one step.

Optuna cannot reopen a trial that has ended. The study is therefore rewritten, with the same
trials, numbers and values, some of which run again; the new file replaces the old one in one step.
From then on they are trials that were interrupted: they are handed out again, and continue from
their checkpoints.
"""

from orchestrator.execution import study
from orchestrator.execution.checkpoints import checkpoints_of
from orchestrator.planning.lengthening import UPDATES
from orchestrator.planning.plan import SearchPlan, SweepPlan
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Event, TrialStarted
from orchestrator.tracking.states import STOPPED_BY_TAG, State


def reopen_trials(plan: SweepPlan, log: EventLog) -> list[str]:
    """Reopen the trials of a search that train on, unless that is done already.

    Returns:
        What there is to say about trials that stay as they are.
    """
    states = _states_to_reopen(plan) if isinstance(plan, SearchPlan) else ()
    if not isinstance(plan, SearchPlan) or not states:
        return []
    numbers = [
        each.number
        for each in study.study_trials(plan.folder, plan.name)
        if State.from_optuna(each.state) in states and STOPPED_BY_TAG not in each.user_attrs
    ]
    saved = {number for number in numbers if checkpoints_of(plan.ray_storage, number)}
    # The log first: a driver that is killed in between does both again.
    log.append(*_events(plan, log, saved))
    study.reopen(plan.folder, plan.name, saved, plan.part)
    lost = sorted(set(numbers) - saved)
    return [f"without a checkpoint, trial {number} stays as it is" for number in lost]


def _states_to_reopen(plan: SearchPlan) -> tuple[State, ...]:
    """Complete trials if they are longer now; pruned ones if they only waited for a promotion."""
    if not plan.longer_since and not plan.pauses:
        return ()  # without a look at the study, which may be large
    done = study.reopened_part(plan.folder, plan.name)
    complete = (State.COMPLETE,) if plan.longer_since > done else ()
    return (*complete, State.PRUNED) if plan.pauses and plan.part > done else complete


def _events(plan: SearchPlan, log: EventLog, numbers: set[int]) -> list[Event]:
    """That these trials run again, with their number of updates if that is new."""
    params = {
        event.number: event.params
        for event, _ in log.read(0)
        if isinstance(event, TrialStarted) and event.params
    }
    longer = {UPDATES: plan.fixed[UPDATES]} if plan.longer_since else {}
    tags = {"extended_to": plan.fixed[UPDATES]} if plan.longer_since else {}
    return [
        TrialStarted(number, {**params.get(number, {}), **longer}, tags)
        for number in sorted(numbers)
    ]
