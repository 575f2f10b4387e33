"""How far a sweep is: its trials, its leaders, and the time that is left."""

import pytest

from orchestrator.execution.progress import Row, Snapshot, rows_of
from orchestrator.planning.plan import Candidate, ComparisonPlan, SearchPlan
from orchestrator.tracking.events import Metrics, TrialEnded, TrialPaused, TrialStarted
from orchestrator.tracking.states import State

PLAN = SearchPlan("s", "ptb", "smoke", trials=40, metric="bpc", better="lower", reports=4)


def settings(number):
    return {
        "estimator": ("gumbel", "reinforce")[number % 2],
        "training.learning_rate": 0.001 * (number + 1),
        "model.recurrent_dropout": 0.05 * number,
        "model.hidden": 48,
    }


def test_the_leaders_have_what_differs_and_fit():
    rows = {number: Row(State.COMPLETE, 2.0 + number, 4, settings(number)) for number in range(4)}
    wide = Snapshot(PLAN, rows).leaders(200, 3)
    heads = [column[0] for column in wide]
    assert {len(column) for column in wide} == {1 + 3}
    assert "learning_rate" in heads
    assert "hidden" not in heads
    narrow = Snapshot(PLAN, rows).leaders(40, 3)
    assert sum(2 + max(map(len, column)) for column in narrow) <= 40
    assert narrow[0][1] == "0"
    assert Snapshot(PLAN, {}).leaders(40, 3) == []


def test_a_failed_trial_does_not_lead_and_higher_may_be_better():
    higher = SearchPlan("s", "snli", "smoke", trials=3, metric="accuracy", better="higher")
    rows = {0: Row(State.COMPLETE, 0.5), 1: Row(State.FAILED, 0.9), 2: Row(State.RUNNING, 0.7)}
    assert Snapshot(higher, rows).ranked() == [2, 0]


def test_a_trial_that_was_resumed_after_its_end_is_running():
    events = [TrialStarted(0), TrialEnded(0, "KILLED"), TrialStarted(0)]
    assert rows_of(events, PLAN)[0].state is State.RUNNING
    assert rows_of(events[:2], PLAN)[0].state is State.STOPPED


def test_a_trial_that_waits_for_its_promotion_does_not_run():
    events = [TrialStarted(0), TrialStarted(1), TrialPaused(0), TrialStarted(0), TrialPaused(0)]
    assert [rows_of(events[:count], PLAN)[0].paused for count in range(2, 6)] == [
        False,
        True,
        False,
        True,
    ]
    events += [Metrics(number, 10, {"valid_bpc": 2.0 + number}) for number in range(2)]
    now = Snapshot(PLAN, rows_of(events, PLAN))
    assert "1 running, 1 paused, " in now.summary()
    assert ["state", "paused", "running"] in now.leaders(200, 2)
    assert not rows_of([*events, TrialEnded(0, "FINISHED")], PLAN)[0].paused


def test_of_a_past_trial_the_best_is_sought_where_its_trainer_sought_it():
    params = {"memory.vary_cells_from": "0.5", "training.updates": "40"}
    values = {10: 1.0, 20: 1.1, 30: 1.5, 40: 1.4}
    events = [TrialStarted(0, params)]
    events += [Metrics(0, step, {"valid_bpc": value}) for step, value in values.items()]
    assert rows_of(events, PLAN)[0].value == 1.4


def test_time_left_counts_what_running_trials_have_done():
    rows = {number: Row(State.COMPLETE, 1.0, 4) for number in range(9)}
    rows[9] = Row(State.RUNNING, 1.0, 2)  # half of its four results
    whole = Snapshot(PLAN, rows, seconds=95.0)
    assert whole.summary().endswith("about 5 min left")  # 30.5 more at 10 s
    resumed = Snapshot(PLAN, rows, seconds=10.0, results_before=32)  # 6 in these ten seconds
    assert resumed.summary().endswith("about 3 min left")
    assert "left" not in Snapshot(PLAN, {0: Row()}, seconds=5.0).summary()


def test_every_candidate_has_the_results_of_its_own_budget():
    candidates = Candidate("short", {}, reports=2), Candidate("long", {}, reports=8)
    plan = ComparisonPlan(
        *("c", "ptb", "paper", 4, "bpc", "lower"), reports=40, candidates=candidates, seeds=(1, 2)
    )
    rows = {0: Row(State.COMPLETE, 2.0, 2), 1: Row(State.RUNNING, 1.9, 4)}
    now = Snapshot(plan, rows, seconds=60.0)
    assert now.done == 1.5
    assert now.results_left() == 4 + (2 + 8)  # the rest of trial 1; both candidates with seed 2
    assert now.time_left() == pytest.approx(140.0)  # 6 results in a minute
    assert ["results", "4/8", "2/2"] in now.leaders(200, 2)


def test_time_left_knows_that_trials_are_pruned():
    rows = {number: Row(State.PRUNED, 1.0, 1) for number in range(8)}
    rows[8] = Row(State.COMPLETE, 1.0, 4)
    rows[9] = Row(State.RUNNING, 1.0, 2)  # it has survived where the others were pruned
    now = Snapshot(PLAN, rows, seconds=14.0)
    assert now.results_left() == pytest.approx(30 * (8 * 1 + 4 + 4) / 10 + 2)
    assert now.time_left() == pytest.approx(now.results_left())  # 14 results in 14 s
