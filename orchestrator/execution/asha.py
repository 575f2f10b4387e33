"""ASHA whose rungs survive a restart of the driver."""

import math
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from optuna.trial import FrozenTrial
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler

from orchestrator.execution import ray_internals
from orchestrator.execution.result import OBJECTIVE

REDUCTION = 3
ROUNDING = 1e-9  # nine results times a ninth are one


class Asha(ASHAScheduler):
    """Ray's ASHA, which remembers what was reported before its driver started.

    Ray does not save its schedulers. All that ASHA must know is the value of each trial at each
    rung, and the study has that. Trials are identified by their numbers: Ray gives a trial that
    another driver resumes a new id.
    """

    def __init__(self, mode: str, reports: int, grace: float) -> None:
        """
        Args:
            mode: min or max.
            reports: how many results a full trial has.
            grace: the share of its results before which no trial is stopped.
        """
        super().__init__(
            metric=OBJECTIVE,
            mode=mode,
            max_t=max(1, reports),
            grace_period=max(1, math.floor(reports * grace + ROUNDING)),
            reduction_factor=REDUCTION,
            # A trial that reaches its end says so itself.
            stop_last_trials=False,
        )
        self._sign = 1.0 if mode == "max" else -1.0  # rungs hold values to be maximised

    def recall(self, trials: Iterable[FrozenTrial]) -> None:
        """Fill the rungs from the study, before the first trial starts."""
        for trial in trials:
            for milestone, values in ray_internals.rungs(self):
                reached = [step for step in trial.intermediate_values if step >= milestone]
                if reached:
                    value = trial.intermediate_values[min(reached)]
                    values[str(trial.number)] = self._sign * value

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        super().on_trial_add(tune_controller, _by_number(trial))

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        return super().on_trial_result(tune_controller, _by_number(trial), result)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        super().on_trial_complete(tune_controller, _by_number(trial), result)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        super().on_trial_remove(tune_controller, _by_number(trial))

    def rungs(self) -> dict[int, dict[int, float]]:
        """The objective of each trial that reached a rung, by its iteration and trial number."""
        return {
            int(milestone): {int(number): self._sign * value for number, value in values.items()}
            for milestone, values in ray_internals.rungs(self)
        }


def _by_number(trial: Trial) -> Any:
    """All that ASHA asks of a trial: an id."""
    return SimpleNamespace(trial_id=str(trial.config["number"]))
