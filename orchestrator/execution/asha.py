"""ASHA whose rungs survive whatever ends the driver."""

import math
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from optuna.trial import FrozenTrial
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler

from orchestrator.execution.search import OBJECTIVE

REDUCTION = 3
ROUNDING = 1e-9  # nine reports times a ninth are one


class Asha(ASHAScheduler):
    """Ray's ASHA, which knows what was reported and decided before its driver started.

    Ray does not save its schedulers. All that ASHA has to know is what each trial had reached at
    each rung, and the study has that. Trials are known to it by their numbers: the id that Ray
    gives to a trial changes when the trial is taken up by another driver.
    """

    def __init__(self, mode: str, reports: int, grace: float) -> None:
        """`grace` is the share of its reports before which no trial is stopped."""
        super().__init__(
            metric=OBJECTIVE,
            mode=mode,
            max_t=max(1, reports),
            grace_period=max(1, math.floor(reports * grace + ROUNDING)),
            reduction_factor=REDUCTION,
            # A trial that reaches its end says so itself.
            stop_last_trials=False,
        )
        self._sign = 1.0 if mode == "max" else -1.0  # a rung keeps what is to be raised

    def recall(self, trials: Iterable[FrozenTrial]) -> None:
        """Take in what the study knows; before the first trial starts."""
        for trial in trials:
            for milestone, recorded in self._rungs():
                reached = [step for step in trial.intermediate_values if step >= milestone]
                if reached:
                    value = trial.intermediate_values[min(reached)]
                    recorded[str(trial.number)] = self._sign * value

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        super().on_trial_add(tune_controller, _by_number(trial))

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        return super().on_trial_result(tune_controller, _by_number(trial), result)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        super().on_trial_complete(tune_controller, _by_number(trial), result)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        super().on_trial_remove(tune_controller, _by_number(trial))

    def rungs(self) -> dict[int, dict[int, float]]:
        """The objective of the trials that reached a rung, by its iteration and their numbers."""
        return {
            int(milestone): {int(key): self._sign * value for key, value in recorded.items()}
            for milestone, recorded in self._rungs()
        }

    def _rungs(self) -> list[tuple[float, dict[str, float]]]:
        return [rung for bracket in self._brackets for rung in bracket._rungs]


def _by_number(trial: Trial) -> Any:
    """All that ASHA asks of a trial: a name."""
    return SimpleNamespace(trial_id=str(trial.config["number"]))
