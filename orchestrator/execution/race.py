"""A race of configurations with several seeds: who is clearly worse with one seed gets no other.

A trial trains its first seed alone. At its end the study decides whether the other seeds follow:

- judged by the worst seed: no, if the first seed alone is worse than the best complete trial. More
  seeds cannot make it better, so this is certain.
- judged by the mean: no, if the first seed is further behind the best complete trial than chance
  explains: by more than t * s * sqrt(1 + 1/seeds), where s is the standard deviation between seeds
  of one configuration, pooled over the complete trials, and t the quantile of Student's t. A
  configuration as good as the best would be dropped in one case of twenty.
"""

import copy
import math
from collections.abc import Iterable, Sequence
from statistics import variance
from typing import Any, NamedTuple

import scipy
from optuna.trial import FrozenTrial, TrialState
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from orchestrator.execution.result import FINISHED, FIRST_SEED, OBJECTIVE, SEED_VALUES
from orchestrator.execution.schedulers.base import Rule, Scheduler

CONFIDENCE = 0.95


class Complete(NamedTuple):
    """A configuration of which all seeds were trained."""

    value: float  # the objective
    seeds: Sequence[float]  # that of each seed


def is_clearly_worse(
    first: float, complete: Sequence[Complete], aggregate: str, sign: float
) -> bool:
    """Whether a configuration with this value of its first seed gets no other seeds.

    Args:
        sign: the factor that makes higher better.
    """
    if not complete:
        return False
    behind = max(sign * each.value for each in complete) - sign * first
    return behind > (0.0 if aggregate == "worst" else _chance(complete))


def _chance(complete: Sequence[Complete]) -> float:
    """How far a first seed may be behind by chance; infinite as long as nothing is known of it."""
    seeds = len(complete[0].seeds)
    degrees = len(complete) * (seeds - 1)
    if degrees < 2:
        return math.inf
    pooled = sum(variance(each.seeds) for each in complete) / len(complete)
    return float(scipy.stats.t.ppf(CONFIDENCE, degrees)) * math.sqrt(pooled * (1 + 1 / seeds))


class Race(Scheduler):
    """A scheduler for the first seed of each trial, and the decision on the other seeds."""

    def __init__(self, inner: Scheduler, rule: Rule, aggregate: str) -> None:
        super().__init__()
        self._inner, self._sign, self._aggregate = inner, rule.sign, aggregate
        self._complete: dict[int, Complete] = {}
        self._known: dict[int, int] = {}  # the last result of each trial of an earlier driver
        self._first_done: set[int] = set()

    def recall(self, trials: Iterable[FrozenTrial]) -> None:
        trials = list(trials)
        self._inner.recall(map(_first_seed, trials))
        for trial in trials:
            self._known[trial.number] = max(trial.intermediate_values, default=0)
            values = trial.user_attrs.get(SEED_VALUES, [])
            if trial.state is TrialState.COMPLETE and trial.value is not None:
                self._complete[trial.number] = Complete(trial.value, values)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        number, values = int(trial.config["number"]), result.get(SEED_VALUES) or []
        if number in self._first_done:
            if result.get(FINISHED):
                self._complete[number] = Complete(result[OBJECTIVE], values)
            return TrialScheduler.CONTINUE
        if not values:
            return self._inner.on_trial_result(tune_controller, trial, result)
        self._first_done.add(number)
        if result["training_iteration"] < self._known.get(number, 0):
            return TrialScheduler.CONTINUE  # decided by an earlier driver
        complete = list(self._complete.values())
        worse = is_clearly_worse(values[0], complete, self._aggregate, self._sign)
        return TrialScheduler.STOP if worse else TrialScheduler.CONTINUE

    # Everything else is the first seed's scheduler's.

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        self._inner.on_trial_add(tune_controller, trial)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        self._inner.on_trial_error(tune_controller, trial)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        if int(trial.config["number"]) not in self._first_done:
            self._inner.on_trial_complete(tune_controller, trial, result)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        self._inner.on_trial_remove(tune_controller, trial)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        return self._inner.choose_trial_to_run(tune_controller)

    def debug_string(self) -> str:
        return self._inner.debug_string()


def _first_seed(trial: FrozenTrial) -> FrozenTrial:
    """A trial with the results of its first seed alone."""
    last = trial.user_attrs.get(FIRST_SEED, math.inf)
    alone = copy.copy(trial)
    alone.intermediate_values = {
        step: value for step, value in trial.intermediate_values.items() if step <= last
    }
    return alone
