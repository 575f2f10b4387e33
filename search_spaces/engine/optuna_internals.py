"""The private parts of Optuna that the search relies on, in one place.

`TPESampler` reads the trials of a study only through `Study._get_trials`. Overriding it is the one
way to show the sampler a part of a study. pyproject.toml caps Optuna's version, and
tests/unit/search_spaces/test_optuna_internals.py checks what is assumed here.
"""

from collections.abc import Container, Sequence
from typing import Any, cast

import optuna
from optuna.trial import FrozenTrial, TrialState

# TPE compares the best tenth of the trials with the others, but never more than the best 25
# (`optuna.samplers._tpe.sampler.default_gamma`).
MAX_BEST_TRIALS = 25


def study_with_trials(study: optuna.Study, trials: Sequence[FrozenTrial]) -> optuna.Study:
    """The study, as a sampler would see it if it had only these trials."""
    return cast(optuna.Study, _PartialStudy(study, trials))


class _PartialStudy:
    """A study with some of its trials; everything else is delegated to the study."""

    def __init__(self, study: optuna.Study, trials: Sequence[FrozenTrial]) -> None:
        self._study, self._trials = study, trials

    def __getattr__(self, name: str) -> Any:
        return getattr(self._study, name)

    def _get_trials(
        self,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
        use_cache: bool = False,
    ) -> list[FrozenTrial]:
        return [trial for trial in self._trials if states is None or trial.state in states]
