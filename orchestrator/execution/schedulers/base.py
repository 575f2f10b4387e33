"""The interface of a scheduler: one of Ray's whose memory is the study.

Ray does not save its schedulers. The study has the value of every trial at every step, so that a
scheduler can be told, when a driver starts, what was reported to the drivers before it. Trials are
identified by their numbers: Ray gives a trial that another driver resumes a new id.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

from optuna.trial import FrozenTrial
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from tardis_core.registry import Registry

ROUNDING = 1e-9  # nine results times a ninth are one


class Rule(NamedTuple):
    """What a scheduler must know of a search."""

    mode: str  # min | max
    results: int  # of a full trial
    grace: float  # the share of its results before which no trial is stopped

    @property
    def first(self) -> int:
        """The first result after which a trial may be stopped."""
        return max(1, math.floor(self.results * self.grace + ROUNDING))

    @property
    def sign(self) -> float:
        """The factor that makes higher better."""
        return 1.0 if self.mode == "max" else -1.0


class Scheduler(TrialScheduler):
    """A scheduler that can be resumed; a subclass is made by `Subclass(rule)`."""

    def __init__(self, *rule: Rule) -> None:
        super().__init__()  # also called by Ray's classes, which have no rule

    @abstractmethod
    def recall(self, trials: Iterable[FrozenTrial]) -> None:
        """Learn from the study what was reported before, before the first trial starts."""

    @property
    def paused(self) -> frozenset[int]:
        """The trials that wait for a promotion; most schedulers stop trials for good."""
        return frozenset()

    def promotable(self, closing: bool) -> int | None:
        """The paused trial that is to continue now, if there is one.

        Args:
            closing: nothing runs and no new trial is left: the best of a rung continues anyway, so
                that at least one trial runs to its end.
        """
        return None

    def promote(self, number: int) -> None:
        """Note that a paused trial continues."""


class Numbered(NamedTuple):
    """All that Ray's schedulers ask of a trial: an id, the same for every driver."""

    trial_id: str


def by_number(trial: Trial) -> Any:
    """A trial of Ray by its number in the study."""
    return Numbered(str(trial.config["number"]))


SCHEDULERS: Registry[type[Scheduler]] = Registry("scheduler", "orchestrator.execution.schedulers")
