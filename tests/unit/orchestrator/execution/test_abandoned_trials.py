"""What the callbacks record of trials that were abandoned, by Ray or by a driver that died."""

from types import SimpleNamespace

import pytest
from optuna.trial import TrialState

from orchestrator.execution import tuner as sweeping
from orchestrator.execution.callbacks import RecordTrials, catch_up, params_of
from orchestrator.execution.result import FINISHED, OBJECTIVE
from orchestrator.execution.schedulers.asha import Asha
from orchestrator.execution.schedulers.base import Rule
from orchestrator.execution.search import Search
from orchestrator.execution.study import open_study
from orchestrator.planning.plan import SearchPlan
from orchestrator.tracking.event_log import open_log
from orchestrator.tracking.events import TrialEnded, TrialPaused, TrialStarted
from orchestrator.tracking.states import State
from search_spaces.engine.tpe import sampler
from tests.support.sweep_logs import make_plan


def space(trial):
    return {"x": trial.suggest_float("x", 0, 1)}


@pytest.mark.parametrize(
    ("retries_left", "error", "state", "events"),
    [
        (True, "the node died", TrialState.RUNNING, []),
        (False, "OSError: [Errno 28] No space left on device", TrialState.RUNNING, []),
        (False, "the node died", TrialState.FAIL, ["FAILED"]),
    ],
    ids=["abandoned", "disk full", "failed"],
)
def test_an_error_ends_a_trial_only_when_its_retries_are_used_up(
    tmp_path, retries_left, error, state, events
):
    Search(space, sampler, 0, "min", "s", tmp_path, []).suggest("a")
    plan = SearchPlan("s", "copy", "smoke", 1, "bce", "lower", reports=1)
    recorder = RecordTrials(plan, tmp_path, None)
    trial = SimpleNamespace(
        config={"number": 0},
        last_result=None,
        should_recover=lambda: retries_left,
        error_file=None,
        get_error=lambda: error,
    )
    recorder.on_trial_error(1, [trial], trial)
    assert [each.state for each in open_study(tmp_path, "s").trials] == [state]
    log = open_log(tmp_path)
    statuses = [each.status for each, _ in log.read(0) if isinstance(each, TrialEnded)]
    assert statuses == events
    assert recorder.abandoned_count == int(not events)
    assert recorder.disk_full == ("No space" in error)


@pytest.mark.parametrize(("scheduler", "event"), [("promote", TrialPaused), ("asha", TrialEnded)])
def test_only_a_scheduler_that_promotes_lets_a_trial_wait(tmp_path, scheduler, event):
    plan = SearchPlan(
        "s", "copy", "smoke", 1, "bce", "lower", reports=2, grace=1, scheduler=scheduler
    )
    recorder = RecordTrials(plan, tmp_path, None)
    log = open_log(tmp_path)
    log.append(TrialStarted(0))
    trial = SimpleNamespace(config={"number": 0}, last_result={OBJECTIVE: 0.5})
    recorder.on_trial_complete(1, [trial], trial)
    *_, last = [each for each, _ in log.read(0)]
    assert isinstance(last, event)


def test_settings_that_cannot_be_built_are_recorded_as_they_were_proposed():
    plan = SearchPlan("s", "copy", "smoke", 1, "bce", "lower", reports=1)
    trial = SimpleNamespace(config={"number": 0, "settings": {"memory.cells": -5}})
    assert params_of(plan, trial) == {
        "task": "copy",
        "scale": "smoke",
        "seed": 0,
        "memory.cells": -5,
    }


def test_a_driver_that_comes_back_tells_asha_and_the_log_what_the_study_knows(tmp_path):
    search = Search(space, sampler, 0, "min", "s", tmp_path, [])
    for name, value in (("a", 0.5), ("b", 0.7)):
        number = search.suggest(name)["number"]
        open_log(tmp_path).append(TrialStarted(number, {}, {}))
        search.on_trial_result(name, {OBJECTIVE: value, "training_iteration": 1})
    # Killed after it had told the study that the trial is complete, and before the log.
    search.on_trial_complete("a", {OBJECTIVE: 0.5, "training_iteration": 1, FINISHED: True})

    plan = SearchPlan("s", "copy", "smoke", 2, "bce", "lower", reports=1)
    asha = Asha(Rule("min", 1, 1.0))
    RecordTrials(plan, tmp_path, asha).setup()
    catch_up(plan, tmp_path)
    assert asha.rungs() == {1: {0: 0.5, 1: 0.7}}
    ends = [each for each, _ in open_log(tmp_path).read(0) if isinstance(each, TrialEnded)]
    assert [(end.number, end.status, dict(end.tags)) for end in ends] == [
        (0, "FINISHED", {OBJECTIVE: "0.5"})
    ]


def test_the_end_of_the_last_trial_is_recorded_although_nothing_is_left_to_run(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweeping, "_trainable", lambda plan, data: None)
    plan = make_plan(trials=1)
    search = Search(space, sampler, 0, "min", "s", plan.folder, [])
    search.suggest("a")
    log = open_log(plan.folder)
    log.append(TrialStarted(0))
    search.on_trial_complete("a", {OBJECTIVE: 0.5, "training_iteration": 1, FINISHED: True})
    # Killed here.
    sweeping.run(plan, None, 1, [])
    assert log.state(0) is State.COMPLETE


class Fits:
    """Stands for Ray: every fit ends some trials and abandons some."""

    def __init__(self, monkeypatch, *fits):
        self.fits, self.ended, self.count = list(fits), 0, 0
        monkeypatch.setattr(sweeping, "_trainable", lambda plan, data: None)
        monkeypatch.setattr(sweeping, "ended", lambda plan: self.ended)
        monkeypatch.setattr(sweeping, "_tuner", self.tuner)

    def tuner(self, plan, trainable, max_concurrent, recorder, *rest):
        def fit():
            ended, abandoned = self.fits[self.count]
            self.count += 1
            self.ended += ended
            recorder.abandoned_count += abandoned

        return SimpleNamespace(fit=fit)


def test_a_full_disk_ends_the_sweep_as_such(monkeypatch):
    fake = Fits(monkeypatch, (3, 2))
    tuner = fake.tuner

    def full(plan, trainable, max_concurrent, recorder, *rest):
        recorder.disk_full = True
        return tuner(plan, trainable, max_concurrent, recorder, *rest)

    monkeypatch.setattr(sweeping, "_tuner", full)
    plan = SearchPlan("s", "copy", "smoke", 5, "bce", "lower", reports=1)
    with pytest.raises(OSError, match="No space left"):
        sweeping.run(plan, None, 1, [])


@pytest.mark.parametrize(
    ("fits", "count"),
    [
        ([(5, 0)], 1),
        ([(4, 1), (1, 0)], 2),
        ([(3, 2), (1, 1), (1, 0)], 3),
        ([(3, 0)], 1),  # Ctrl-C
        ([(3, 1)], 1),  # Ctrl-C after a trial was abandoned
        ([(3, 2), (0, 2)], 2),  # no more progress
    ],
)
def test_a_sweep_requeues_what_was_abandoned_and_nothing_else(monkeypatch, fits, count):
    fake = Fits(monkeypatch, *fits)
    plan = SearchPlan("s", "copy", "smoke", 5, "bce", "lower", reports=1)
    sweeping.run(plan, None, 1, [])
    assert fake.count == count
