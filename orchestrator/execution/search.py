"""Ray's view of the study: proposes trials, and tells the study how they went."""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.trial import Trial
from ray.tune.search import Searcher

from orchestrator.execution import study
from orchestrator.execution.result import OBJECTIVE, REFUSED, SEED_VALUES, has_objective, state_of
from orchestrator.execution.schedulers.base import Scheduler
from orchestrator.planning.constraints import Limits

_log = logging.getLogger(__name__)
LEARNED_DRAWS = 20  # by the sampler, where proposals violate a constraint; then at random ...
MOST_DRAWS = 200  # ... up to this number: then the trial fails
Space = Callable[[Trial], dict[str, Any]]


class Pausing(NamedTuple):
    """What a search must know if its scheduler pauses trials: they are handed out several times."""

    scheduler: Scheduler
    trials: int  # how many there are to be


class Search(Searcher):
    """A searcher for sweeps whose driver may be killed; Ray's OptunaSearch differs in four ways.

    - Pruned trials are told as pruned with their values, failed and NaN ones as failed; Ray's
      tells both as complete or not at all.
    - What the study already has is not told again: a resumed trial repeats its results.
    - A trial that the study has as running is handed out again before there are new ones.
    - The sampler is created for every trial from the seed and the number of the trial, so that
      proposals depend on the seed and the results, not on how often the driver was restarted.
    """

    def __init__(
        self,
        space: Space,
        sampler: Callable[[int], optuna.samplers.BaseSampler],
        seed: int,
        mode: str,
        study_name: str,
        folder: Path,
        first_guesses: Iterable[dict[str, Any]],
        limits: Limits | None = None,
        pausing: Pausing | None = None,
    ) -> None:
        super().__init__(metric=OBJECTIVE, mode=mode)
        self._space, self._make_sampler, self._seed = space, sampler, seed
        self._study = study.create_study(folder, study_name, mode, sampler(seed))
        self._limits, self._pausing = limits, pausing
        self._trials: dict[str, Trial] = {}  # those that run, by Ray's ids
        for guess in first_guesses:
            self._study.enqueue_trial(guess, skip_if_exists=True)

    def suggest(self, trial_id: str) -> Any:
        if trial_id in self._trials:
            return self._proposal(self._trials[trial_id])
        drawn = self._draw()
        if drawn is None:
            return None if self._trials else Searcher.FINISHED
        self._trials[trial_id], proposal = drawn
        return proposal

    def _draw(self) -> tuple[Trial, dict[str, Any]] | None:
        """The next trial with its proposal; one that violates a constraint is drawn again."""
        draws = 0
        while trial := self._abandoned() or self._next(at_random=draws >= LEARNED_DRAWS):
            draws, proposal = draws + 1, self._proposal(trial)
            violation = self._limits.violation(proposal["settings"]) if self._limits else ""
            if not violation:
                return trial, proposal
            if draws == MOST_DRAWS:
                refused = f"{violation}; so were {MOST_DRAWS} proposals in a row"
                return trial, {**proposal, REFUSED: refused}
            study.set_infeasible(trial, violation)
        return None

    def _proposal(self, trial: Trial) -> dict[str, Any]:
        try:
            settings, refused = self._space(trial), ""
        except ValueError as error:  # only this trial fails
            settings, refused = {}, str(error)
        proposal = {"number": trial.number, "settings": {**trial.params, **settings}}
        return {**proposal, REFUSED: refused} if refused else proposal

    def _ask(self, at_random: bool = False) -> Trial:
        number = len(self._study.get_trials(deepcopy=False))
        make = optuna.samplers.RandomSampler if at_random else self._make_sampler
        self._study.sampler = make(self._seed * 1_000_003 + number)
        return self._study.ask()

    def _next(self, at_random: bool) -> Trial | None:
        """A paused trial that may continue, else a new one; None if the others must come first."""
        if self._pausing is None:
            return self._ask(at_random)
        full = study.started_trials(self._study) >= self._pausing.trials
        number = self._promotable(closing=full and not self._trials)
        if number is not None:
            return study.running_trial(self._study, number)
        return None if full else self._ask(at_random)

    def _promotable(self, closing: bool) -> int | None:
        """The number of a paused trial that is promoted by this."""
        assert self._pausing is not None
        scheduler, trials = self._pausing.scheduler, self._study.get_trials(deepcopy=False)
        while (number := scheduler.promotable(closing)) is not None:
            scheduler.promote(number)
            if not trials[number].state.is_finished():  # unless somebody has stopped it meanwhile
                return number
        return None

    def _abandoned(self) -> Trial | None:
        known = {each.number for each in self._trials.values()}
        paused = self._pausing.scheduler.paused if self._pausing else frozenset()
        trial = study.abandoned_trial(self._study, known | paused)
        if trial is not None:
            _log.info("trial %d is resumed", trial.number)
        return trial

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        if trial_id in self._trials:
            self._report(self._trials[trial_id], result)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        # Dropped: its history of proposals takes memory, and the study has all of it.
        trial = self._trials.pop(trial_id, None)
        # After an error only the callback knows whether Ray has retried the trial often enough.
        if trial is None or error or study.is_told(trial):
            return
        result = result or {}
        self._report(trial, result)
        if self._pausing and trial.number in self._pausing.scheduler.paused:
            return
        study.tell(trial, state_of(result), result.get(OBJECTIVE, float("nan")))

    def _report(self, trial: Trial, result: dict[str, Any]) -> None:
        if has_objective(result):
            study.report(trial, result[OBJECTIVE], int(result["training_iteration"]))
        if values := result.get(SEED_VALUES):
            study.note_seeds(trial, values, int(result["training_iteration"]))

    def save(self, checkpoint_path: str) -> None:
        """Nothing to save: the study is on disk, and Ray's snapshots are never restored."""
