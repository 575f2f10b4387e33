"""The settings that `--set` can change in the trials of a sweep: `--set help`."""

from collections.abc import Iterator, Sequence

from tardis_core.config import Config, make_config
from tardis_core.errors import UserError
from tardis_core.estimators.base import ESTIMATORS
from tardis_core.models.base import MODELS
from tardis_core.registry import TASK_NAMES
from tardis_core.train_session import print_settings


def print_all(
    task: str, scale: str, models: Sequence[str], estimators: Sequence[str] | None = None
) -> None:
    """Print one line per setting of each model and estimator: its value and what it means."""
    if not task:
        raise UserError(f"--set help needs a task: {', '.join(TASK_NAMES.all())}")
    for config in _configs(task, scale or "small", models, estimators or ESTIMATORS.names()):
        print_settings(config)


def _configs(
    task: str, scale: str, models: Sequence[str], estimators: Sequence[str]
) -> Iterator[Config]:
    for model in models:
        for estimator in estimators if MODELS.get(model).discrete else (None,):
            yield make_config(task, model, estimator, scale)
