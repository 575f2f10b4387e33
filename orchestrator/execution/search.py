"""OptunaSearch that tells Optuna the truth, and takes up trials that a killed driver left behind.

A trial is known by its number in the Optuna study, on all sides: Ray's own ids do not survive
everything, the number does.
"""

import json
import logging
import math
import os
import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import FrozenTrial, Trial, TrialState
from ray.tune.search.optuna import OptunaSearch

OBJECTIVE = "objective"  # best validation metric of a trial so far
FINISHED = "finished"  # True in the last result of a trial that ran to its end
FAILED = "failed"  # the reason, in the last result of a trial that could not go on
STUDY_FILE = "study.log"
SYNC_SECONDS = 1.0

_log = logging.getLogger(__name__)
Space = Callable[[Trial], dict[str, Any]]


class StudyFile(JournalFileBackend):
    """Optuna's journal, forced to the disk once a second and not at every write.

    A trial writes some twenty times while its settings are proposed, and forcing each of them
    took a third of the time of a trial. What is written outlives this process, however it ends;
    a crash of the machine may take what the disk had not seen yet. Half a line, which a full disk
    leaves, would make the whole file unreadable: it is cut off.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._exclusive = str(path), JournalFileSymlinkLock(str(path))
        self._synced = 0.0
        super().__init__(self._path, self._exclusive)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        self._exclusive.acquire()
        try:
            with open(self._path, "ab+", buffering=0) as file:
                _cut_torn_end(file)
                _write_whole(file, text.encode())
                if time.monotonic() - self._synced > SYNC_SECONDS:
                    os.fsync(file.fileno())
                    self._synced = time.monotonic()
        finally:
            self._exclusive.release()


def _cut_torn_end(file: FileIO) -> None:
    size = file.seek(0, os.SEEK_END)
    if size:
        file.seek(size - 1)
        if file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def _write_whole(file: FileIO, text: bytes) -> None:
    """All of it, or nothing."""
    end, written = file.seek(0, os.SEEK_END), 0
    try:
        while written < len(text):
            written += file.write(text[written:])
    except OSError:
        file.truncate(end)
        raise


def study_storage(folder: Path) -> JournalStorage:
    """The storage of the study beside a sweep; `optuna-dashboard` opens the file as it is."""
    return JournalStorage(StudyFile(folder / STUDY_FILE))


def open_study(folder: Path, name: str) -> optuna.Study:
    """The study of a sweep that exists, for reading."""
    return optuna.load_study(study_name=name, storage=study_storage(folder))


def tell_failed(folder: Path, name: str, number: int) -> None:
    """Tell the study of a trial that could not be run."""
    open_study(folder, name).tell(number, state=TrialState.FAIL, skip_if_finished=True)


class Search(OptunaSearch):
    """OptunaSearch with four changes, each of which a sweep that may be killed needs.

    - Pruned trials are told as pruned with their values, failed and NaN ones as failed; the
      original tells both as complete or not at all.
    - What the study has already is not told again: a trial that goes on repeats its reports.
    - A trial that the study knows as running is handed out again, before there are new ones.
    - The sampler is made anew for every trial from the seed and the number of the trial, so that
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
        first_guesses: list[dict[str, Any]],
    ) -> None:
        self._settings, self._make_sampler, self._base_seed = space, sampler, seed
        super().__init__(
            space=space,
            metric=OBJECTIVE,
            mode=mode,
            sampler=sampler(seed),
            study_name=study_name,
            storage=study_storage(folder),
        )
        for point in first_guesses:
            self._study.enqueue_trial(point, skip_if_exists=True)

    @property
    def _study(self) -> optuna.Study:
        assert self._ot_study is not None
        return self._ot_study

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        if trial_id not in self._ot_trials:
            trials = self._study.get_trials(deepcopy=False)
            self._ot_trials[trial_id] = self._left_behind(trials) or self._ask(len(trials))
        trial: Trial = self._ot_trials[trial_id]
        settings = self._suggest_from_define_by_run_func(self._settings, trial)
        return {"number": trial.number, "settings": settings}

    def _ask(self, number: int) -> Trial:
        self._study.sampler = self._make_sampler(self._base_seed * 1_000_003 + number)
        return self._study.ask()

    def _left_behind(self, trials: list[FrozenTrial]) -> Trial | None:
        """A trial that a driver asked for and did not live to start."""
        known = {trial.number for trial in self._ot_trials.values()}
        for frozen in trials:
            if frozen.state is TrialState.RUNNING and frozen.number not in known:
                _log.info("trial %d is taken up again", frozen.number)
                return Trial(self._study, frozen._trial_id)
        return None

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        if trial_id in self._ot_trials:
            self._report(self._ot_trials[trial_id], result)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        # What it was proposed from would stay in memory; the study has all of it.
        trial: Trial | None = self._ot_trials.pop(trial_id, None)
        # Of an error only the recorder sees whether Ray has tried the trial often enough.
        if trial is None or error or self._frozen(trial).state.is_finished():
            return
        state = outcome(result)
        if result:
            self._report(trial, result)
        value = result[OBJECTIVE] if result and state is TrialState.COMPLETE else None
        self._study.tell(trial, value, state=state)

    def _report(self, trial: Trial, result: dict[str, Any]) -> None:
        """Add the value of this step, unless the trial is told or has it already."""
        if _missing(result.get(OBJECTIVE)):
            return
        frozen, step = self._frozen(trial), int(result["training_iteration"])
        if not frozen.state.is_finished() and step not in frozen.intermediate_values:
            trial.report(result[OBJECTIVE], step)

    def _frozen(self, trial: Trial) -> FrozenTrial:
        return self._study._storage.get_trial(trial._trial_id)


def outcome(result: dict[str, Any] | None) -> TrialState:
    """How a trial ended, from its last result."""
    if not result or result.get(FAILED) or _missing(result.get(OBJECTIVE)):
        return TrialState.FAIL
    return TrialState.COMPLETE if result.get(FINISHED) else TrialState.PRUNED


def _missing(value: Any) -> bool:
    return value is None or math.isnan(value)
