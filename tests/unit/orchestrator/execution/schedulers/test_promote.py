"""Promotion: trials wait at rungs, continue among the best, and never wait for ever."""

import optuna
import pytest
from optuna.trial import TrialState
from ray.tune.search import Searcher

from orchestrator.execution import study
from orchestrator.execution.pausing import end_paused
from orchestrator.execution.result import FINISHED, OBJECTIVE
from orchestrator.execution.schedulers.base import Rule
from orchestrator.execution.schedulers.promote import Promote
from orchestrator.execution.search import Pausing, Search
from orchestrator.results.records import Records
from orchestrator.tracking.event_log import open_log
from orchestrator.tracking.recorder import Recorder
from orchestrator.tracking.states import State
from tests.support.sweep_logs import make_plan

STEPS = 9  # rungs at 1 and 3


def space(trial):
    return {"x": trial.suggest_float("x", 0, 1)}


class Driver:
    """What Ray does for a search and its scheduler: one trial at a time, values by number."""

    def __init__(self, plan, values):
        self.plan, self.values = plan, values
        self.scheduler = Promote(Rule("min", STEPS, 1 / 9))
        self.scheduler.recall(study.study_trials(plan.folder, plan.name))
        self.search = Search(
            space,
            lambda seed: optuna.samplers.RandomSampler(seed),
            0,
            "min",
            plan.name,
            plan.folder,
            [],
            pausing=Pausing(self.scheduler, plan.trials),
        )
        self.updates = 0

    def suggest(self, name):
        return self.search.suggest(name)

    def run(self, starts=1000):
        """Run to the end, or until the driver dies after so many starts; returns the order."""
        order = []
        for start in range(starts):
            proposal = self.suggest(f"ray{start}")
            if proposal == Searcher.FINISHED:
                return order
            order.append(proposal["number"])
            self.train(f"ray{start}", proposal)
        return order

    def train(self, ray_id, proposal):
        number = proposal["number"]
        trial = type("Trial", (), {"config": proposal, "trial_id": ray_id})()
        Recorder(open_log(self.plan.folder)).started(number, {})
        for step in range(1, STEPS + 1):
            self.updates += 1
            value = self.values[number] / step
            result = {OBJECTIVE: value, "training_iteration": step, FINISHED: step == STEPS}
            decision = self.scheduler.on_trial_result(None, trial, result)
            if decision == "STOP" or result[FINISHED]:
                self.search.on_trial_complete(ray_id, result)
                break
            self.search.on_trial_result(ray_id, result)


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield make_plan(trials=9, reports=STEPS, scheduler="promote")
    open_log(tmp_path / "sweeps" / "s").close()


def trials(plan):
    return study.study_trials(plan.folder, plan.name)


def reached(plan):
    return [max(each.intermediate_values) for each in trials(plan)]


def test_the_best_third_of_each_rung_continues_and_the_rest_is_pruned_at_the_end(plan):
    Driver(plan, [1, 2, 3, 4, 5, 6, 7, 8, 9]).run()
    assert {each.state for each in trials(plan)} == {TrialState.RUNNING, TrialState.COMPLETE}
    end_paused(plan)
    states = [each.state for each in trials(plan)]
    assert states == [TrialState.COMPLETE] + [TrialState.PRUNED] * 8
    assert reached(plan) == [STEPS, 3, 3, 1, 1, 1, 1, 1, 1]
    recorded = Records.load(plan).trials
    assert {recorded[number].state for number in range(1, 9)} == {State.PRUNED}


def test_the_first_trial_waits_and_continues_once_others_are_worse(plan):
    assert Driver(plan, [1] + 8 * [5]).run()[:5] == [0, 1, 2, 0, 3]


def test_a_killed_driver_leaves_nothing_that_the_next_one_does_not_continue(plan):
    values = [5, 3, 8, 1, 9, 2, 7, 4, 6]
    Driver(plan, values).run(starts=4)
    Driver(plan, values).run(starts=3)
    end_paused(plan)  # nothing, as long as there is something to do
    assert not any(each.state.is_finished() for each in trials(plan)[:2])
    Driver(plan, values).run()
    end_paused(plan)
    assert len(trials(plan)) == plan.trials
    assert [each.number for each in trials(plan) if each.state is TrialState.COMPLETE] == [3]


def test_a_trial_that_was_killed_between_rungs_is_handed_out_first(plan):
    first = Driver(plan, list(range(9)))
    first.run(starts=3)
    assert first.suggest("killed")["number"] == 0  # promoted; its driver dies before a result
    second = Driver(plan, list(range(9)))
    assert second.suggest("again")["number"] == 0


@pytest.mark.parametrize("count", [1, 2, 4])
def test_few_trials_have_a_winner_too(tmp_path, monkeypatch, count):
    monkeypatch.chdir(tmp_path)
    plan = make_plan(trials=count, reports=STEPS, scheduler="promote")
    Driver(plan, list(range(1, count + 1))).run()
    end_paused(plan)
    assert all(each.state.is_finished() for each in trials(plan))
    assert trials(plan)[0].state is TrialState.COMPLETE
    open_log(plan.folder).close()


def test_the_search_waits_for_a_running_trial_before_it_ends(plan):
    driver = Driver(plan, 9 * [1])
    for number in range(plan.trials):
        driver.suggest(f"ray{number}")
    assert driver.suggest("more") is None
    for number in range(plan.trials):
        driver.train(f"ray{number}", {"number": number})
    assert driver.suggest("more")["number"] == 0
