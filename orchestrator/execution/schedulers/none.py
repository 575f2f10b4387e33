"""No scheduler: every trial runs to its end."""

from collections.abc import Iterable

from optuna.trial import FrozenTrial
from ray.tune.schedulers import FIFOScheduler

from orchestrator.execution.schedulers.base import SCHEDULERS, Rule, Scheduler


@SCHEDULERS.register("none")
class NoScheduler(FIFOScheduler, Scheduler):
    """Trials in the order in which they were proposed."""

    def __init__(self, rule: Rule) -> None:
        super().__init__()

    def recall(self, trials: Iterable[FrozenTrial]) -> None:
        """There is nothing to remember."""
