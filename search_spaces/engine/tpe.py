"""How a sweep proposes trials."""

import heapq
import warnings
from collections.abc import Container
from typing import Any, cast

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

# Trials before TPE begins to model, the first guesses among them: it needs a few of each estimator.
STARTUP_TRIALS = 10
# TPE sets the best tenth of the trials against the others, but never more than the best 25. So from
# 250 trials on only the others become more: the latest of them are enough.
GOOD = 25
LATEST = 10 * GOOD


def sampler(seed: int) -> optuna.samplers.TPESampler:
    """TPE over the joint distribution, branch by branch, aware of the trials still running."""
    with warnings.catch_warnings():
        # Optuna may yet change these three; constraints.txt holds its version.
        warnings.filterwarnings(
            "ignore",
            message=r".*``(multivariate|group|constant_liar)``",
            category=ExperimentalWarning,
        )
        return BoundedTPE(
            n_startup_trials=STARTUP_TRIALS,
            multivariate=True,  # sizes and rates go together
            group=True,  # a conditional space is modelled by its branches
            constant_liar=True,  # trials at the same time keep apart
            seed=seed,
        )


class BoundedTPE(optuna.samplers.TPESampler):
    """TPE whose proposals take hardly longer the more trials there were.

    It looks through all that it is shown for every proposal, so it is shown a part of the study.
    """

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


class _BoundedStudy:
    """A study of which the sampler sees some trials only; all else is the study's."""

    def __init__(self, study: optuna.Study) -> None:
        self._study = study
        self._shown = remembered(study.get_trials(deepcopy=False), study.direction)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._study, name)

    def _get_trials(
        self,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
        use_cache: bool = False,
    ) -> list[FrozenTrial]:
        return [trial for trial in self._shown if states is None or trial.state in states]


def _bounded(study: optuna.Study) -> optuna.Study:
    return cast(optuna.Study, _BoundedStudy(study))


def remembered(trials: list[FrozenTrial], direction: StudyDirection) -> list[FrozenTrial]:
    """The best trials, the latest ones, and those that are running, in their order."""
    measured = [t for t in trials if t.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    if len(measured) <= LATEST:
        return trials
    sign = 1.0 if direction is StudyDirection.MINIMIZE else -1.0
    best = heapq.nsmallest(GOOD, measured, key=lambda trial: _rank(trial, sign))
    running = [trial for trial in trials if trial.state is TrialState.RUNNING]
    shown = {trial.number: trial for trial in (*best, *measured[-LATEST:], *running)}
    return [shown[number] for number in sorted(shown)]


def _rank(trial: FrozenTrial, sign: float) -> tuple[float, ...]:
    """As TPE ranks them: complete ones by their value, then pruned ones that came furthest."""
    if trial.state is TrialState.COMPLETE:
        return 0, sign * cast(float, trial.value)
    step, value = max(trial.intermediate_values.items(), default=(-1, 0.0))
    return 1, -step, sign * value
