"""The sampler of a sweep: TPE whose proposals do not become slower with every trial."""

import heapq
import warnings
from typing import Any, cast

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from search_spaces.engine.optuna_internals import MAX_BEST_TRIALS, study_with_trials

# Random trials before TPE starts, including the first guesses: it needs a few per estimator.
STARTUP_TRIALS = 10
# The best trials are at most a tenth up to this number; beyond it only the others grow in number,
# and the latest of them are enough.
LATEST_TRIALS = 10 * MAX_BEST_TRIALS


def sampler(seed: int) -> optuna.samplers.TPESampler:
    """Multivariate TPE per branch of the space that takes running trials into account."""
    with warnings.catch_warnings():
        # Optuna may still change these three options; pyproject.toml caps its version.
        warnings.filterwarnings(
            "ignore",
            message=r".*``(multivariate|group|constant_liar)``",
            category=ExperimentalWarning,
        )
        return BoundedTPE(
            n_startup_trials=STARTUP_TRIALS,
            multivariate=True,  # sizes and rates depend on each other
            group=True,  # a conditional space has one model per branch
            constant_liar=True,  # concurrent trials keep apart
            seed=seed,
        )


class BoundedTPE(optuna.samplers.TPESampler):
    """TPE that sees a bounded number of trials, because every proposal goes through all of them."""

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return super().infer_relative_search_space(_bounded(study), trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return super().sample_relative(_bounded(study), trial, search_space)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return super().sample_independent(_bounded(study), trial, param_name, param_distribution)


def _bounded(study: optuna.Study) -> optuna.Study:
    trials = relevant_trials(study.get_trials(deepcopy=False), study.direction)
    return study_with_trials(study, trials)


def relevant_trials(trials: list[FrozenTrial], direction: StudyDirection) -> list[FrozenTrial]:
    """The best trials, the latest and the running ones, in their order."""
    measured = [t for t in trials if t.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    if len(measured) <= LATEST_TRIALS:
        return trials
    sign = 1.0 if direction is StudyDirection.MINIMIZE else -1.0
    best = heapq.nsmallest(MAX_BEST_TRIALS, measured, key=lambda trial: _rank(trial, sign))
    running = [trial for trial in trials if trial.state is TrialState.RUNNING]
    relevant = {trial.number: trial for trial in (*best, *measured[-LATEST_TRIALS:], *running)}
    return [relevant[number] for number in sorted(relevant)]


def _rank(trial: FrozenTrial, sign: float) -> tuple[float, ...]:
    """TPE's order: complete trials by value, then pruned ones, those with most steps first."""
    if trial.state is TrialState.COMPLETE:
        return 0, sign * cast(float, trial.value)
    step, value = max(trial.intermediate_values.items(), default=(-1, 0.0))
    return 1, -step, sign * value
