"""What Ray calls while trials run: their recording, and the release of what Ray keeps of them."""

import errno
import logging
import os
from pathlib import Path
from typing import Any

from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE
from optuna.trial import FrozenTrial
from ray import tune
from ray.tune.experiment import Trial

from orchestrator.execution import ray_internals, study
from orchestrator.execution.result import (
    FAILED,
    NOTE,
    OBJECTIVE,
    RECORDED,
    ROWS,
    has_objective,
    state_of,
)
from orchestrator.execution.schedulers.asha import Asha
from orchestrator.execution.schedulers.base import Scheduler
from orchestrator.planning.configs import params_of_config, trial_config
from orchestrator.planning.plan import SearchPlan, SweepPlan
from orchestrator.tracking.event_log import open_log
from orchestrator.tracking.recorder import Recorder
from orchestrator.tracking.states import STOPPED_BY_TAG, State
from tardis_core.commands import training_command
from tardis_core.config import Config
from tardis_core.errors import UserError

_log = logging.getLogger(__name__)


class TrialEnds(tune.Callback):
    """Both of Ray's ways to say that a trial has ended lead to `ended`.

    Where the process that is to resume a trial dies before the trial starts, Ray abandons the
    trial although it has retries left: such a trial has not ended. Nor has one that could not save
    its checkpoint because the disk was full.
    """

    plan: SweepPlan

    def ended(self, trial: Trial, state: State) -> None:
        """A trial has ended in this state."""
        raise NotImplementedError

    def paused(self, trial: Trial) -> None:
        """A trial waits for a promotion; Ray has ended it."""

    def abandoned(self, trial: Trial) -> None:
        """A trial has not ended, and this Ray experiment will not continue it."""

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        state = state_of(trial.last_result)
        if STOPPED_BY_TAG in trial.config:
            self.ended(trial, State.PRUNED)
        elif state is State.PRUNED and isinstance(self.plan, SearchPlan) and self.plan.pauses:
            self.paused(trial)
        else:
            self.ended(trial, state)

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        if ray_internals.may_retry(trial) or is_disk_full(trial):
            self.abandoned(trial)
        else:
            self.ended(trial, State.FAILED)


class RecordTrials(TrialEnds):
    """Records trials in the event log; and gives the scheduler its memory."""

    def __init__(self, plan: SweepPlan, folder: Path, scheduler: Scheduler | None) -> None:
        self.plan, self.folder, self.scheduler = plan, folder, scheduler
        self.abandoned_count = 0
        self.disk_full = False

    @property
    def _recorder(self) -> Recorder:
        """Not an attribute: Ray pickles its callbacks, and a log belongs to one process."""
        return Recorder(open_log(self.folder))

    def setup(self, *arguments: Any, **info: Any) -> None:
        """Tell the scheduler what happened before: the sweep may be resumed."""
        if self.scheduler is not None:
            self.scheduler.recall(study.study_trials(self.folder, self.plan.name))

    def get_state(self) -> dict[str, Any] | None:
        # Never restored; it lets others look at the rungs.
        return {"rungs": self.scheduler.rungs()} if isinstance(self.scheduler, Asha) else None

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        number = number_of(trial)
        tags = {
            **self.plan.trial_tags(number),
            MLFLOW_RUN_NAME: self.plan.title(number),
            MLFLOW_RUN_NOTE: _note(self.plan, trial),
        }
        self._recorder.started(number, params_of(self.plan, trial), tags)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        if result.get(NOTE) and result.get("iterations_since_restore") == 1:
            _log.warning("trial %d: %s", number_of(trial), result[NOTE])
        best = {self.plan.best_metric: result[OBJECTIVE]} if has_objective(result) else {}
        self._recorder.measured(number_of(trial), result.get(ROWS, ()), best)

    def paused(self, trial: Trial) -> None:
        self._recorder.paused(number_of(trial))

    def abandoned(self, trial: Trial) -> None:
        self.abandoned_count += 1
        self.disk_full |= is_disk_full(trial)
        _log.warning("trial %d was abandoned by Ray and is requeued", number_of(trial))

    def ended(self, trial: Trial, state: State) -> None:
        number, result, error = number_of(trial), trial.last_result or {}, ""
        if state is State.FAILED:
            error = str(result.get(FAILED) or ray_internals.error_of(trial) or "no result")
            if isinstance(self.plan, SearchPlan):
                study.tell_failed(self.folder, self.plan.name, number)
        tags = {name: result[name] for name in RECORDED if result.get(name)}
        if STOPPED_BY_TAG in trial.config:
            tags[STOPPED_BY_TAG] = trial.config[STOPPED_BY_TAG]
        if result.get(OBJECTIVE) is not None:
            tags[OBJECTIVE] = str(result[OBJECTIVE])
        self._recorder.ended(number, state, tags, error)


class FreeMemory(tune.Callback):
    """Releases what Ray would keep of every trial that has ended."""

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        ray_internals.free_statistics(trial)


def catch_up(plan: SweepPlan, folder: Path) -> None:
    """Record the end of trials whose driver was killed after it had told only the study."""
    if isinstance(plan, SearchPlan):
        trials = study.study_trials(folder, plan.name)
        Recorder(open_log(folder)).catch_up({trial.number: end_of(trial) for trial in trials})


def end_of(trial: FrozenTrial) -> tuple[State, dict[str, str]]:
    """The state of a trial in the study, and the tags that say how it ended."""
    tags = {} if trial.value is None else {OBJECTIVE: str(trial.value)}
    if STOPPED_BY_TAG in trial.user_attrs:
        tags[STOPPED_BY_TAG] = trial.user_attrs[STOPPED_BY_TAG]
    return State.from_optuna(trial.state), tags


def number_of(trial: Trial) -> int:
    """The number of a trial in the study, by which everyone knows it."""
    return int(trial.config["number"])


def is_disk_full(trial: Trial) -> bool:
    """Whether a trial failed because it found no room for its checkpoint."""
    return os.strerror(errno.ENOSPC) in ray_internals.error_of(trial)


def _config_of(plan: SweepPlan, trial: Trial) -> Config:
    return trial_config(plan.task, plan.scale, plan.seed, trial.config["settings"])


def _note(plan: SweepPlan, trial: Trial) -> str:
    """The description of a trial in the MLflow UI."""
    title = f"{plan.title(number_of(trial))} of the sweep {plan.name}"
    try:
        config = _config_of(plan, trial)
    except UserError as error:
        return f"{title}: {error}"
    command = training_command(config, plan.data_dir, plan.data)
    return (
        f"{title}: {config.system} on {plan.task}, scale {plan.scale}. To train it again:\n\n"
        f"```sh\n{command}\n```"
    )


def params_of(plan: SweepPlan, trial: Trial) -> dict[str, Any]:
    """The resolved settings of a trial by name, with its task, model, estimator, scale and seed.

    Of settings that no network can be built with, there is only what was proposed: the trial fails
    with the reason.
    """
    try:
        return params_of_config(_config_of(plan, trial))
    except UserError:
        proposed = trial.config["settings"]
        return {"task": plan.task, "scale": plan.scale, "seed": plan.seed, **proposed}
