"""Asynchronous successive halving: at each rung only the best third continues."""

from collections.abc import Iterable
from typing import Any

from optuna.trial import FrozenTrial
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler

from orchestrator.execution import ray_internals
from orchestrator.execution.result import OBJECTIVE
from orchestrator.execution.schedulers.base import SCHEDULERS, Rule, Scheduler, by_number

REDUCTION = 3


@SCHEDULERS.register("asha")
class Asha(ASHAScheduler, Scheduler):
    """Ray's ASHA, which remembers what was reported before its driver started."""

    def __init__(self, rule: Rule, brackets: int = 1) -> None:
        """
        Args:
            brackets: how many rules of different patience trials are divided among.
        """
        super().__init__(
            metric=OBJECTIVE,
            mode=rule.mode,
            max_t=max(1, rule.results),
            grace_period=rule.first,
            reduction_factor=REDUCTION,
            brackets=brackets,
            # A trial that reaches its end says so itself.
            stop_last_trials=False,
        )
        self._sign = rule.sign  # rungs hold values to be maximised

    def bracket(self, number: int) -> int:
        """The bracket of a trial: a function of its number, so that every driver agrees."""
        return 0

    def recall(self, trials: Iterable[FrozenTrial]) -> None:
        for trial in trials:
            for milestone, values in ray_internals.rungs(self, self.bracket(trial.number)):
                reached = [step for step in trial.intermediate_values if step >= milestone]
                if reached:
                    value = trial.intermediate_values[min(reached)]
                    values[str(trial.number)] = self._sign * value

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        number = by_number(trial)
        ray_internals.assign_bracket(self, number.trial_id, self.bracket(int(number.trial_id)))

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        return super().on_trial_result(tune_controller, by_number(trial), result)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        super().on_trial_complete(tune_controller, by_number(trial), result)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        super().on_trial_remove(tune_controller, by_number(trial))

    def rungs(self, bracket: int = 0) -> dict[int, dict[int, float]]:
        """The objective of each trial that reached a rung, by its iteration and trial number."""
        return {
            int(milestone): {int(number): self._sign * value for number, value in values.items()}
            for milestone, values in ray_internals.rungs(self, bracket)
        }
