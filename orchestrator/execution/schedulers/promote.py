"""Promotion: a trial waits at each rung until it is among the best third there.

Li et al. 2020 (MLSys, "A System for Massively Parallel Hyperparameter Tuning"), Algorithm 2. Ray's
ASHA stops a trial for good, and lets the first trials pass because there is nothing to compare them
with. Here a trial that does not pass is paused; it continues from its checkpoint once enough others
are worse. Ray sees a paused trial as ended, and its continuation as a trial of its own, which the
searcher hands out: so it needs no room while it waits, and survives its driver.
"""

from collections.abc import Iterable
from typing import Any

from optuna.trial import FrozenTrial, TrialState
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from orchestrator.execution.result import OBJECTIVE, has_objective
from orchestrator.execution.schedulers.asha import REDUCTION
from orchestrator.execution.schedulers.base import SCHEDULERS, Rule, Scheduler


@SCHEDULERS.register("promote")
class Promote(FIFOScheduler, Scheduler):
    """Successive halving in which a trial that does not pass is paused."""

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self._sign = rule.sign
        # By the number of results; the value of each trial there, higher is better.
        self._rungs: dict[int, dict[int, float]] = {each: {} for each in _milestones(rule)}
        self._paused: dict[int, int] = {}  # the rung at which a trial waits

    @property
    def paused(self) -> frozenset[int]:
        return frozenset(self._paused)

    def promotable(self, closing: bool) -> int | None:
        for rung in reversed(self._rungs):
            for number in self._best(rung, at_least=int(closing)):
                if self._paused.get(number) == rung:
                    return number
        return None

    def promote(self, number: int) -> None:
        del self._paused[number]

    def recall(self, trials: Iterable[FrozenTrial]) -> None:
        for trial in trials:
            steps = sorted(trial.intermediate_values)
            for rung, values in self._rungs.items():
                reached = [step for step in steps if step >= rung]
                if reached:
                    values[trial.number] = self._sign * trial.intermediate_values[reached[0]]
                # Whether it was promoted shows in its next result.
                if len(reached) == 1 and trial.state is TrialState.RUNNING:
                    self._paused[trial.number] = rung

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        if not has_objective(result):
            return TrialScheduler.CONTINUE
        number, step = int(trial.config["number"]), int(result["training_iteration"])
        new = [rung for rung in self._rungs if rung <= step and number not in self._rungs[rung]]
        for rung in new:
            self._rungs[rung][number] = self._sign * result[OBJECTIVE]
        if not new or number in self._best(new[-1]):
            return TrialScheduler.CONTINUE
        self._paused[number] = new[-1]
        return TrialScheduler.STOP

    def _best(self, rung: int, at_least: int = 0) -> list[int]:
        """The best third of the trials that have reached a rung, best first."""
        values = self._rungs[rung]
        ranked = sorted(values, key=lambda number: (-values[number], number))
        return ranked[: max(at_least, len(ranked) // REDUCTION)]


def _milestones(rule: Rule) -> list[int]:
    """The results after which trials are compared; at their last one they need not be."""
    milestones, milestone = [], rule.first
    while milestone < rule.results:
        milestones.append(milestone)
        milestone *= REDUCTION
    return milestones
