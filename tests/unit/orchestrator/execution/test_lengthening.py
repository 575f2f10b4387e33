"""A search is made longer: its complete trials run again, and nothing that was measured is lost."""

from dataclasses import replace

import pytest
from optuna.trial import TrialState

from orchestrator.execution import lengthening, study
from orchestrator.execution.checkpoints import CHECKPOINT
from orchestrator.execution.schedulers.base import Rule
from orchestrator.execution.schedulers.promote import Promote
from orchestrator.results.records import Records
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.states import State
from tests.support.sweep_logs import fill, make_plan

VALUES = [0.5, 0.2, None, (0.9,)]  # complete, complete, failed, pruned
COMPLETE = [0, 1]


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """A finished search with the checkpoints of its complete trials."""
    monkeypatch.chdir(tmp_path)
    plan = make_plan(trials=len(VALUES))
    plan.save()
    fill(plan, VALUES)
    for number in COMPLETE:
        saved = plan.folder / "ray" / "trials-0" / f"trial-{number}-x" / "checkpoint_000000"
        saved.mkdir(parents=True)
        (saved / CHECKPOINT).touch()
    return plan


def reopen(plan):
    log = EventLog(plan.folder)
    said = lengthening.reopen_trials(plan, log)
    log.close()
    return said


def trials(plan):
    return study.study_trials(plan.folder, plan.name)


def test_complete_trials_run_again_and_the_others_stay(plan):
    before = trials(plan)
    assert reopen(plan.with_updates(500, reports=5)) == []
    after = trials(plan)
    assert [each.state for each in after] == [
        TrialState.RUNNING,
        TrialState.RUNNING,
        TrialState.FAIL,
        TrialState.PRUNED,
    ]
    for old, new in zip(before, after, strict=True):
        assert new.number == old.number
        assert new.params == old.params
        assert new.distributions == old.distributions
        assert new.intermediate_values == old.intermediate_values
    states = {n: each.state for n, each in Records.load(plan).trials.items()}
    assert [states[n] for n in range(4)] == [*2 * [State.RUNNING], State.FAILED, State.PRUNED]


def test_the_log_knows_how_long_the_trials_are_now(plan):
    rows = Records.load(plan).trials[0].rows
    reopen(plan.with_updates(500, reports=5))
    trial = Records.load(plan).trials[0]
    assert trial.params["training.updates"] == "500"
    assert trial.tags["extended_to"] == "500"
    assert trial.rows == rows


def test_a_resumed_driver_does_not_reopen_what_has_ended_since(plan):
    longer = plan.with_updates(500, reports=5)
    reopen(longer)
    study.open_study(plan.folder, plan.name).tell(0, 0.1)
    assert reopen(longer) == []
    assert trials(plan)[0].state is TrialState.COMPLETE
    reopen(longer.with_updates(900, reports=9))
    assert trials(plan)[0].state is TrialState.RUNNING


def test_a_search_with_more_trials_alone_reopens_none(plan):
    reopen(plan.with_more_trials(2))
    assert trials(plan)[0].state is TrialState.COMPLETE


def test_a_trial_without_a_checkpoint_stays_as_it_is(plan):
    (plan.folder / "ray" / "trials-0" / "trial-1-x" / "checkpoint_000000" / CHECKPOINT).unlink()
    assert reopen(plan.with_updates(500, reports=5)) == [
        "without a checkpoint, trial 1 stays as it is"
    ]
    assert [each.state.name for each in trials(plan)[:2]] == ["RUNNING", "COMPLETE"]


def test_trials_that_waited_for_a_promotion_wait_again(plan):
    saved = plan.folder / "ray" / "trials-0" / "trial-3-x" / "checkpoint_000000"
    saved.mkdir(parents=True)
    (saved / CHECKPOINT).touch()
    waiting = replace(plan, scheduler="promote", reports=9).with_more_trials(4)
    assert reopen(waiting) == []
    names = [each.state.name for each in trials(plan)]
    assert names == ["COMPLETE", "COMPLETE", "FAIL", "RUNNING"]
    scheduler = Promote(Rule("min", 9, 1 / 9))
    scheduler.recall(trials(plan))
    assert scheduler.paused == {3}
    study.open_study(plan.folder, plan.name).tell(3, state=TrialState.PRUNED)
    reopen(waiting)  # of a resumed driver
    assert trials(plan)[3].state is TrialState.PRUNED


def test_a_half_written_study_is_written_anew(plan):
    (plan.folder / f"{study.STUDY_FILE}.new").write_bytes(b'{"op_code": 0, "study')
    reopen(plan.with_updates(500, reports=5))
    assert len(trials(plan)) == len(VALUES)
    assert not (plan.folder / f"{study.STUDY_FILE}.new").exists()
