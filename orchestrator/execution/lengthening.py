"""A search whose trials train longer: the complete ones are opened again, all at once.

Optuna cannot reopen a trial that has ended. The study is therefore written anew, with the same
trials, numbers and values, of which the complete ones run again; the new file replaces the old one
in one step. From then on they are trials that were interrupted: they are handed out again, and
continue from their checkpoints.
"""

from orchestrator.execution import study
from orchestrator.execution.checkpoints import checkpoints_of
from orchestrator.planning.lengthening import UPDATES
from orchestrator.planning.plan import SearchPlan, SweepPlan
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Event, TrialStarted
from orchestrator.tracking.states import State


def reopen_trials(plan: SweepPlan, log: EventLog) -> list[str]:
    """Reopen the complete trials of a search that was made longer, unless that is done already.

    Returns:
        What there is to say about trials that stay as they are.
    """
    if not isinstance(plan, SearchPlan) or not _is_new(plan):
        return []
    trials = study.study_trials(plan.folder, plan.name)
    complete = [each.number for each in trials if State.from_optuna(each.state) is State.COMPLETE]
    saved = {number for number in complete if checkpoints_of(plan.ray_storage, number)}
    # The log first: a driver that is killed in between does both again.
    log.append(*_events(plan, log, saved))
    study.reopen(plan.folder, plan.name, saved, plan.longer_since)
    lost = sorted(set(complete) - saved)
    return [f"without a checkpoint, trial {number} stays as it is" for number in lost]


def _is_new(plan: SearchPlan) -> bool:
    """Whether the study does not know yet how long trials are now."""
    return 0 < plan.longer_since > study.longer_since(plan.folder, plan.name)


def _events(plan: SearchPlan, log: EventLog, numbers: set[int]) -> list[Event]:
    """That these trials run again, with their new number of updates."""
    params = {
        event.number: event.params
        for event, _ in log.read(0)
        if isinstance(event, TrialStarted) and event.params
    }
    updates = plan.fixed[UPDATES]
    return [
        TrialStarted(number, {**params.get(number, {}), UPDATES: updates}, {"extended_to": updates})
        for number in sorted(numbers)
    ]
