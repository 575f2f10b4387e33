"""A trial that Ray gives up too early has not ended: the sweep takes it up again."""

from types import SimpleNamespace

import pytest
from optuna.trial import TrialState

from orchestrator.execution import tuner as sweeping
from orchestrator.execution.callbacks import RecordTrials
from orchestrator.execution.search import Search
from orchestrator.execution.study import open_study
from orchestrator.planning.plan import SearchPlan
from orchestrator.tracking.event_log import open_log
from orchestrator.tracking.events import TrialEnded
from search_spaces import sampler


def space(trial):
    return {"x": trial.suggest_float("x", 0, 1)}


@pytest.mark.parametrize(
    ("tries_left", "state", "events"),
    [(True, TrialState.RUNNING, []), (False, TrialState.FAIL, ["FAILED"])],
    ids=["abandoned", "failed"],
)
def test_an_error_ends_a_trial_only_when_its_tries_are_used_up(tmp_path, tries_left, state, events):
    Search(space, sampler, 0, "min", "s", tmp_path, []).suggest("a")
    plan = SearchPlan("s", "copy", "smoke", 1, "bce", "lower", reports=1)
    recorder = RecordTrials(plan, tmp_path, None)
    trial = SimpleNamespace(
        config={"number": 0},
        last_result=None,
        should_recover=lambda: tries_left,
        get_error=lambda: "the node died",
    )
    recorder.on_trial_error(1, [trial], trial)
    assert [each.state for each in open_study(tmp_path, "s").trials] == [state]
    log = open_log(tmp_path)
    found = [each.status for each, _ in log.read(0) if isinstance(each, TrialEnded)]
    assert found == events
    assert recorder.abandoned_count == int(tries_left)


class Fits:
    """Stands for Ray: every fit ends some trials and gives some up."""

    def __init__(self, monkeypatch, *fits):
        self.fits, self.ended, self.made = list(fits), 0, 0
        monkeypatch.setattr(sweeping, "_trainable", lambda plan, data: None)
        monkeypatch.setattr(sweeping, "ended", lambda plan: self.ended)
        monkeypatch.setattr(sweeping, "_tuner", self.tuner)

    def tuner(self, plan, trainable, max_concurrent, recorder, callbacks):
        def fit():
            ended, abandoned = self.fits[self.made]
            self.made += 1
            self.ended += ended
            recorder.abandoned_count += abandoned

        return SimpleNamespace(fit=fit)


@pytest.mark.parametrize(
    ("fits", "made"),
    [
        ([(5, 0)], 1),
        ([(4, 1), (1, 0)], 2),
        ([(3, 2), (1, 1), (1, 0)], 3),
        ([(3, 0)], 1),  # Ctrl-C
        ([(3, 1)], 1),  # Ctrl-C after a trial was abandoned
        ([(3, 2), (0, 2)], 2),  # nothing gets on any more
    ],
)
def test_a_sweep_goes_on_with_what_was_abandoned_and_with_nothing_else(monkeypatch, fits, made):
    found = Fits(monkeypatch, *fits)
    plan = SearchPlan("s", "copy", "smoke", 5, "bce", "lower", reports=1)
    sweeping.run(plan, None, 1, [])
    assert found.made == made
