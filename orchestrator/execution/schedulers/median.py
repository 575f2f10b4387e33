"""The median rule: a trial whose best is worse than the median of the others' means is stopped."""

import math
from collections.abc import Iterable
from typing import Any

from optuna.trial import FrozenTrial
from ray.tune.experiment import Trial
from ray.tune.schedulers import MedianStoppingRule, TrialScheduler

from orchestrator.execution import ray_internals
from orchestrator.execution.result import OBJECTIVE, has_objective
from orchestrator.execution.schedulers.base import (
    SCHEDULERS,
    Numbered,
    Rule,
    Scheduler,
    by_number,
)

STEP = "training_iteration"


@SCHEDULERS.register("median")
class Median(MedianStoppingRule, Scheduler):
    """Ray's median stopping rule (Golovin et al. 2017), which remembers earlier results."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(
            time_attr=STEP,
            metric=OBJECTIVE,
            mode=rule.mode,
            grace_period=rule.first,
            # A trial that cannot be compared yet is never paused: infinity is not below infinity.
            min_time_slice=math.inf,  # type: ignore[arg-type]
        )

    def recall(self, trials: Iterable[FrozenTrial]) -> None:
        for trial in trials:
            results = [
                {STEP: step, OBJECTIVE: value}
                for step, value in sorted(trial.intermediate_values.items())
            ]
            if results:
                ray_internals.remember(self, Numbered(str(trial.number)), results)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        # Before the first validation that counts there is nothing to compare.
        if not has_objective(result) or self._is_known(trial, result):
            return TrialScheduler.CONTINUE
        return super().on_trial_result(tune_controller, by_number(trial), result)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        if has_objective(result) and not self._is_known(trial, result):
            super().on_trial_complete(tune_controller, by_number(trial), result)

    def _is_known(self, trial: Trial, result: dict[str, Any]) -> bool:
        """Whether a resumed trial repeats a result."""
        known = ray_internals.remembered(self, by_number(trial))
        return any(each[STEP] == result[STEP] for each in known)
