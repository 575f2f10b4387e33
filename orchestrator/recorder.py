"""The bridge from Ray to the event log: what a trial does becomes an event, once."""

import functools
from pathlib import Path
from typing import Any

from optuna.trial import TrialState
from ray import tune
from ray.tune.experiment import Trial

from orchestrator.asha import Asha
from orchestrator.events import EventLog, Metrics, Status, TrialEnded, TrialStarted
from orchestrator.plan import SweepPlan
from orchestrator.search import FAILED, OBJECTIVE, open_study, outcome
from orchestrator.trial import trial_config

STATUS: dict[TrialState, Status] = {
    TrialState.COMPLETE: "FINISHED",
    TrialState.PRUNED: "KILLED",
    TrialState.FAIL: "FAILED",
}


@functools.cache
def event_log(folder: Path) -> EventLog:
    """The event log of a sweep, opened once in a process."""
    return EventLog(folder)


class Recorder(tune.Callback):
    """Appends to the event log; and carries the scheduler's state, which Ray does not save."""

    def __init__(self, plan: SweepPlan, folder: Path, scheduler: Asha) -> None:
        self.plan, self.folder, self.scheduler = plan, folder, scheduler

    @property
    def log(self) -> EventLog:
        """Not an attribute: Ray pickles its callbacks, and a log belongs to one process."""
        return event_log(self.folder)

    def get_state(self) -> dict[str, Any]:
        return {"scheduler": self.scheduler.state()}

    def set_state(self, state: dict[str, Any]) -> None:
        study = open_study(self.folder, self.plan.name)
        told = frozenset(
            t.number for t in study.get_trials(deepcopy=False) if t.state.is_finished()
        )
        self.scheduler.restore_state(state["scheduler"], told)

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        settings, plan = trial.config["settings"], self.plan
        config = trial_config(plan.task, plan.scale, plan.seed, settings)
        params = {
            "model": config.model,
            "estimator": config.estimator,
            "scale": config.scale,
            "seed": config.seed,
            **config.settings(),
        }
        self.log.append(
            TrialStarted(number_of(trial), {key: str(value) for key, value in params.items()}, {})
        )

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        for row in result.get("rows", ()):
            values = {name: value for name, value in row.items() if name != "update"}
            self.log.append(Metrics(number_of(trial), int(row["update"]), values))

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self._ended(trial, outcome(trial.last_result, error=False))

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self._ended(trial, TrialState.FAIL)

    def _ended(self, trial: Trial, state: TrialState) -> None:
        result = trial.last_result or {}
        tags = {}
        if state is TrialState.PRUNED:
            tags["pruned"] = "true"
        if state is TrialState.FAIL:
            reason = result.get(FAILED) or trial.get_error() or "no result"
            tags["error"] = str(reason)[:4000]
        if result.get(OBJECTIVE) is not None:
            tags[OBJECTIVE] = str(result[OBJECTIVE])
        self.log.append(TrialEnded(number_of(trial), STATUS[state], tags))


def number_of(trial: Trial) -> int:
    """The number of a trial in the study, by which everyone knows it."""
    return int(trial.config["number"])
