"""ASHA whose decisions survive a restart."""

from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, TrialScheduler

from orchestrator.search import OBJECTIVE

REDUCTION = 3


class Asha(ASHAScheduler):
    """Ray's ASHA, which knows what was decided before the driver was killed.

    Ray does not save its schedulers; `orchestrator.recorder` puts this one's state into the
    snapshot of the experiment.
    """

    def __init__(self, mode: str, reports: int) -> None:
        super().__init__(
            metric=OBJECTIVE,
            mode=mode,
            max_t=max(1, reports),
            grace_period=max(1, reports // REDUCTION**2),
            reduction_factor=REDUCTION,
            # A trial that reaches its end says so itself.
            stop_last_trials=False,
        )
        self.told: frozenset[int] = frozenset()  # numbers that the study had as ended at a restore

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        if trial.config["number"] in self.told:
            return TrialScheduler.STOP  # what was decided before the kill stands
        return super().on_trial_result(tune_controller, trial, result)

    def state(self) -> dict[str, Any]:
        """All that it knows, for a snapshot."""
        return self.__dict__.copy()

    def restore_state(self, state: dict[str, Any], told: frozenset[int]) -> None:
        """Go back to a snapshot, with what was decided since then."""
        self.__dict__.update(state)
        self.told = told

    def rungs(self) -> list[tuple[float, dict[str, float]]]:
        """(iteration, objective by trial id) of every rung, for comparisons."""
        return [(milestone, dict(made)) for b in self._brackets for milestone, made in b._rungs]
