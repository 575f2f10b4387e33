"""The bridge from Ray to the event log: what a trial does becomes an event, once."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME
from optuna.trial import FrozenTrial, TrialState
from ray import tune
from ray.tune.experiment import Trial

from orchestrator.common.redaction import masked
from orchestrator.execution.asha import Asha
from orchestrator.execution.search import FAILED, OBJECTIVE, open_study, outcome, tell_failed
from orchestrator.execution.trial import NOTE
from orchestrator.planning.configs import trial_config
from orchestrator.planning.plan import SearchPlan, SweepPlan
from orchestrator.tracking.event_log import EventLog, open_log
from orchestrator.tracking.events import Metrics, Status, TrialEnded, TrialStarted

_log = logging.getLogger(__name__)
STATUS: dict[TrialState, Status] = {
    TrialState.COMPLETE: "FINISHED",
    TrialState.PRUNED: "KILLED",
    TrialState.FAIL: "FAILED",
}


class EndsOfTrials(tune.Callback):
    """Both of Ray's ways to tell that a trial has ended lead to `ended`.

    But where the process that is to take a trial up dies before the trial begins, Ray gives the
    trial up, whatever tries it has left: that is no end of it.
    """

    def ended(self, trial: Trial, state: TrialState) -> None:
        """A trial has ended like this."""
        raise NotImplementedError

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self.ended(trial, outcome(trial.last_result))

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        if trial.should_recover():
            self.given_up(trial)
        else:
            self.ended(trial, TrialState.FAIL)

    def given_up(self, trial: Trial) -> None:
        """A trial has not ended, and Ray will not go on with it."""


class Recorder(EndsOfTrials):
    """Appends to the event log; and gives the scheduler its memory, which Ray does not save."""

    def __init__(self, plan: SweepPlan, folder: Path, scheduler: Asha | None) -> None:
        self.plan, self.folder, self.scheduler = plan, folder, scheduler
        self.times_given_up = 0

    @property
    def log(self) -> EventLog:
        """Not an attribute: Ray pickles its callbacks, and a log belongs to one process."""
        return open_log(self.folder)

    def setup(self, *arguments: Any, **info: Any) -> None:
        """Tell the scheduler what was before: the sweep may be resumed or extended."""
        if self.scheduler is not None:
            trials = open_study(self.folder, self.plan.name).get_trials(deepcopy=False)
            self.scheduler.recall(trials)
            self._catch_up(trials)

    def _catch_up(self, trials: Sequence[FrozenTrial]) -> None:
        """Record the end of trials whose driver was killed when it had told only the study."""
        unfinished = set(self.log.open_trials())
        for trial in trials:
            if trial.number in unfinished and trial.state.is_finished():
                tags = {OBJECTIVE: str(trial.value)} if trial.value is not None else {}
                if trial.state is TrialState.PRUNED:
                    tags["pruned"] = "true"
                self.log.append(TrialEnded(trial.number, STATUS[trial.state], tags))

    def get_state(self) -> dict[str, Any] | None:
        # Nothing is restored from it; it lets others look at the rungs.
        return {"rungs": self.scheduler.rungs()} if self.scheduler else None

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        number = number_of(trial)
        tags = {**self.plan.trial_tags(number), MLFLOW_RUN_NAME: self.plan.title(number)}
        self.log.append(TrialStarted(number, params_of(self.plan, trial), tags))

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        if result.get(NOTE) and result.get("iterations_since_restore") == 1:
            _log.warning("trial %d: %s", number_of(trial), result[NOTE])
        for row in result.get("rows", ()):
            values = {name: value for name, value in row.items() if name != "update"}
            self.log.append(Metrics(number_of(trial), int(row["update"]), values))

    def given_up(self, trial: Trial) -> None:
        self.times_given_up += 1
        _log.warning("trial %d was given up by Ray and is taken up again", number_of(trial))

    def ended(self, trial: Trial, state: TrialState) -> None:
        if state is TrialState.FAIL and isinstance(self.plan, SearchPlan):
            tell_failed(self.folder, self.plan.name, number_of(trial))
        result = trial.last_result or {}
        kept = ("device", "backend", "peak_memory_gb", NOTE)
        tags = {name: result[name] for name in kept if result.get(name)}
        if state is TrialState.PRUNED:
            tags["pruned"] = "true"
        if state is TrialState.FAIL:
            reason = result.get(FAILED) or trial.get_error() or "no result"
            tags["error"] = masked(str(reason))[:4000]
        if result.get(OBJECTIVE) is not None:
            tags[OBJECTIVE] = str(result[OBJECTIVE])
        self.log.append(TrialEnded(number_of(trial), STATUS[state], tags))


def number_of(trial: Trial) -> int:
    """The number of a trial in the study, by which everyone knows it."""
    return int(trial.config["number"])


def params_of(plan: SweepPlan, trial: Trial) -> dict[str, Any]:
    """Everything that makes a trial what it is, by name."""
    config = trial_config(plan.task, plan.scale, plan.seed, trial.config["settings"])
    return {
        "task": config.task,
        "model": config.model,
        "estimator": config.estimator,
        "scale": config.scale,
        "seed": config.seed,
        **config.settings(),
    }
