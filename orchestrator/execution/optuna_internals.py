"""The private parts of Optuna that a sweep relies on, each in one place.

tests/unit/orchestrator/execution/test_optuna_internals.py says what is relied on: run it before
raising the version of Optuna in pyproject.toml.
"""

from typing import Any

import optuna
from optuna.trial import FrozenTrial, Trial


def stored(trial: Trial) -> FrozenTrial:
    """A trial as the storage has it now, without reading all the others."""
    return trial.study._storage.get_trial(trial._trial_id)


def reopen(study: optuna.Study, frozen: FrozenTrial) -> Trial:
    """A trial that another process asked for, to be continued by this one."""
    return Trial(study, frozen._trial_id)


def enqueued_point(trial: Trial) -> dict[str, Any]:
    """The parameters that a trial was enqueued with; the sampler has drawn the others."""
    return dict(stored(trial).system_attrs.get("fixed_params", {}))
