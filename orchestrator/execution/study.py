"""The Optuna study of a sweep: what was proposed and how it went, in a file beside the sweep.

A trial is identified by its number in the study, on all sides: Ray's own ids do not survive a
restart of the driver, the number does.
"""

import json
import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import FrozenTrial, Trial, TrialState

from orchestrator.common.journal import (
    append_whole,
    damaged_lines,
    drop_torn_line,
    set_damage_aside,
)
from orchestrator.execution import optuna_internals
from orchestrator.execution.result import FIRST_SEED, SEED_VALUES
from orchestrator.tracking.states import STOPPED_BY_TAG, State
from tardis_core.errors import UserError

STUDY_FILE, DAMAGED = "study.log", "study.damaged"
PART = "part"  # an attribute of the study: the extension for which trials were reopened last
SYNC_SECONDS = 1.0
INFEASIBLE = "infeasible"  # user attribute of a proposal: the constraint that it violates
REQUEST = "request"  # user attribute of an enqueued trial: the id of its request
KNOWN_FROM = "known_from"  # user attribute: sweep and number of a trial of an earlier sweep


class StudyFile(JournalFileBackend):
    """Optuna's journal, flushed to the disk once per second instead of at every write.

    Proposing the settings of a trial writes some twenty times, and flushing each of them took a
    third of the time of a trial. What is written survives this process, however it ends; a crash
    of the machine can lose the last second. A torn line would make the file unreadable to Optuna,
    so it is cut off.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._exclusive = str(path), JournalFileSymlinkLock(str(path))
        self._synced = 0.0
        super().__init__(self._path, self._exclusive)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        self._exclusive.acquire()
        try:
            with open(self._path, "ab+", buffering=0) as file:
                drop_torn_line(file)
                append_whole(file, text.encode())
                if time.monotonic() - self._synced > SYNC_SECONDS:
                    os.fsync(file.fileno())
                    self._synced = time.monotonic()
        finally:
            self._exclusive.release()


def study_storage(folder: Path) -> JournalStorage:
    """The storage of the study in a sweep's folder; `optuna-dashboard` opens the file as it is."""
    if lines := damaged_lines(folder / STUDY_FILE, _is_log):
        raise UserError(
            f"{folder / STUDY_FILE} is damaged in line {lines[0]}; set that aside with: "
            f"python -m orchestrator.doctor {folder.name} --fix"
        )
    return JournalStorage(StudyFile(folder / STUDY_FILE))


def set_study_damage_aside(folder: Path) -> int:
    """Move damaged lines of the study to a file of their own; returns how many there were."""
    return set_damage_aside(folder / STUDY_FILE, _is_log, folder / DAMAGED)


def _is_log(line: bytes) -> bool:
    try:
        return "op_code" in json.loads(line)
    except (ValueError, TypeError):
        return False


def create_study(folder: Path, name: str, mode: str, sampler: BaseSampler) -> optuna.Study:
    """The study of a sweep, created at its first start; `mode` is min or max."""
    return optuna.create_study(
        study_name=name,
        storage=study_storage(folder),
        sampler=sampler,
        pruner=optuna.pruners.NopPruner(),  # Ray's scheduler prunes
        direction="minimize" if mode == "min" else "maximize",
        load_if_exists=True,
    )


def open_study(folder: Path, name: str) -> optuna.Study:
    """The study of an existing sweep, for reading."""
    return optuna.load_study(study_name=name, storage=study_storage(folder))


def study_trials(folder: Path, name: str) -> list[FrozenTrial]:
    """The trials of a sweep; none if it was stopped before it created its study.

    The study also has trials of an earlier sweep, which only the sampler sees, and proposals that
    violate a constraint.
    """
    try:
        trials = open_study(folder, name).get_trials(deepcopy=False)
    except KeyError:
        return []
    return [trial for trial in trials if is_own(trial)]


def is_own(trial: FrozenTrial) -> bool:
    """Whether a trial of the study is one of the sweep."""
    return not {KNOWN_FROM, INFEASIBLE} & trial.user_attrs.keys()


def reopened_part(folder: Path, name: str) -> int:
    """The part of the search for which trials were reopened last; 0 if none was."""
    try:
        return int(open_study(folder, name).user_attrs.get(PART, 0))
    except KeyError:
        return 0


def reopen(folder: Path, name: str, numbers: Collection[int], part: int) -> None:
    """Rewrite the study in one step, with some trials that had ended running again."""
    old, draft = open_study(folder, name), folder / f"{STUDY_FILE}.new"
    draft.unlink(missing_ok=True)
    new = optuna.create_study(
        study_name=name, storage=JournalStorage(StudyFile(draft)), directions=old.directions
    )
    for key, value in {**old.user_attrs, PART: part}.items():
        new.set_user_attr(key, value)
    for trial in old.get_trials():
        new.add_trial(_running(trial) if trial.number in numbers else trial)
    with open(draft, "rb") as file:
        os.fsync(file.fileno())
    os.replace(draft, folder / STUDY_FILE)


def _running(trial: FrozenTrial) -> FrozenTrial:
    trial.state, trial.values, trial.datetime_complete = TrialState.RUNNING, None, None
    return trial


def abandoned_trial(study: optuna.Study, ours: set[int]) -> Trial | None:
    """A trial that a driver asked for and did not live to finish, if it is not one of ours."""
    for frozen in study.get_trials(deepcopy=False):
        if frozen.state is TrialState.RUNNING and frozen.number not in ours:
            return optuna_internals.reopen(study, frozen)
    return None


def running_trial(study: optuna.Study, number: int) -> Trial:
    """A trial that has not ended, to be continued by this process."""
    return optuna_internals.reopen(study, study.get_trials(deepcopy=False)[number])


def started_trials(study: optuna.Study) -> int:
    """How many trials have been handed out; others may be queued."""
    trials = study.get_trials(deepcopy=False)
    return sum(is_own(each) and each.state is not TrialState.WAITING for each in trials)


def is_told(trial: Trial) -> bool:
    """Whether the study knows how the trial ended."""
    return optuna_internals.stored(trial).state.is_finished()


def report(trial: Trial, value: float, step: int) -> None:
    """Add the value of a step, unless the trial has ended or has the step already."""
    frozen = optuna_internals.stored(trial)
    if not frozen.state.is_finished() and step not in frozen.intermediate_values:
        trial.report(value, step)


def note_seeds(trial: Trial, values: list[float], step: int) -> None:
    """Note the value of each seed that a trial has trained, unless the trial has ended."""
    frozen = optuna_internals.stored(trial)
    if frozen.state.is_finished() or frozen.user_attrs.get(SEED_VALUES) == values:
        return
    trial.set_user_attr(SEED_VALUES, values)
    if len(values) == 1:
        trial.set_user_attr(FIRST_SEED, step)


def tell(trial: Trial, state: State, value: float) -> None:
    """Tell the study how a trial ended; the value counts if it is complete."""
    final = value if state is State.COMPLETE else None
    trial.study.tell(trial, final, state=TrialState[state.optuna_name])


def stop_by_user(folder: Path, name: str, number: int) -> FrozenTrial:
    """Tell the study that somebody has stopped a trial; returns it as it is then."""
    study = open_study(folder, name)
    before = study.get_trials(deepcopy=False)[number]
    by_user = before.user_attrs.get(STOPPED_BY_TAG)  # by a driver that was killed
    if before.state.is_finished() and not by_user:
        state = State.from_optuna(before.state)
        raise UserError(f"trial {number} of {name} has ended already: it is {state}")
    if not before.state.is_finished():
        optuna_internals.reopen(study, before).set_user_attr(STOPPED_BY_TAG, "user")
        study.tell(number, state=TrialState.PRUNED)
    return study.get_trials(deepcopy=False)[number]


def enqueue(study: optuna.Study, point: dict[str, Any], request: str) -> None:
    """Make these settings the next trial, as somebody has asked for; once, if repeated."""
    waiting = study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
    if not any(each.user_attrs.get(REQUEST) == request for each in waiting):
        study.enqueue_trial(point, {REQUEST: request})


def set_infeasible(trial: Trial, violation: str) -> None:
    """Take a proposal back that violates a constraint; samplers ignore it from then on.

    Settings that somebody has asked for stay enqueued, and the others are drawn again with them.
    """
    if request := trial.user_attrs.get(REQUEST):
        enqueue(trial.study, optuna_internals.enqueued_point(trial), request)
    trial.set_user_attr(INFEASIBLE, violation)
    trial.study.tell(trial, state=TrialState.FAIL)


def tell_pruned(folder: Path, name: str, number: int) -> None:
    """Tell the study that a trial waits no longer."""
    open_study(folder, name).tell(number, state=TrialState.PRUNED, skip_if_finished=True)


def tell_failed(folder: Path, name: str, number: int) -> None:
    """Tell the study that a trial could not be run."""
    open_study(folder, name).tell(number, state=TrialState.FAIL, skip_if_finished=True)
