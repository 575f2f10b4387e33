"""What every scheduler must do: decide alike for every driver, and never hurt a trial too soon."""

import math
import random
from types import SimpleNamespace

import optuna
import pytest
from ray.tune.schedulers import TrialScheduler

from orchestrator.execution.result import FINISHED, OBJECTIVE
from orchestrator.execution.schedulers.base import SCHEDULERS, Rule
from orchestrator.planning import plan

STOP, CONTINUE = TrialScheduler.STOP, TrialScheduler.CONTINUE
STEPS, TRIALS = 9, 24
CONTROLLER = SimpleNamespace(get_live_trials=lambda: [SimpleNamespace(status="PENDING")])

every_scheduler = pytest.mark.parametrize("name", SCHEDULERS.names())


def new(name, mode="min", grace=1 / 9):
    return SCHEDULERS.get(name)(Rule(mode, STEPS, grace))


def ray_trial(number, driver=0):
    return SimpleNamespace(trial_id=f"driver{driver}-{number}", config={"number": number})


def send(scheduler, number, step, value, driver=0):
    result = {OBJECTIVE: value, "training_iteration": step, FINISHED: step == STEPS}
    return scheduler.on_trial_result(CONTROLLER, ray_trial(number, driver), result)


def curves(seed=0):
    """Validations of trials that differ in how good they become."""
    rng = random.Random(seed)
    return [[rng.random() + 3 / (step + 1) for step in range(STEPS)] for _ in range(TRIALS)]


def train(scheduler, numbers, values, driver=0, sign=1):
    """Train trials one after the other; returns the steps that each was given."""
    steps = {}
    for number in numbers:
        scheduler.on_trial_add(CONTROLLER, ray_trial(number, driver))
        for step, value in enumerate(values[number], start=1):
            steps[number] = step
            if send(scheduler, number, step, sign * value, driver) == STOP:
                break
        last = {OBJECTIVE: sign * values[number][steps[number] - 1], "training_iteration": step}
        scheduler.on_trial_complete(CONTROLLER, ray_trial(number, driver), last)
    return steps


def finish(scheduler, steps, values):
    """Continue paused trials, as a search does once it has no new ones."""
    steps = dict(steps)
    while (number := scheduler.promotable(closing=True)) is not None:
        scheduler.promote(number)
        for step in range(1, STEPS + 1):  # a continued trial repeats its results
            steps[number] = max(step, steps[number])
            if send(scheduler, number, step, values[number][step - 1], driver=1) == STOP:
                break
    return steps


def study_after(steps, values, sign=1):
    study = optuna.create_study(direction="minimize" if sign == 1 else "maximize")
    for number, count in steps.items():
        asked = study.ask()
        for step in range(1, count + 1):
            asked.report(sign * values[number][step - 1], step)
        study.tell(asked, state=optuna.trial.TrialState.PRUNED)
    return study.get_trials()


def test_the_options_name_every_scheduler():
    assert set(plan.SCHEDULERS) == set(SCHEDULERS.names())


@every_scheduler
@pytest.mark.parametrize("sign", [1, -1], ids=["min", "max"])
def test_a_new_driver_decides_as_the_old_one_would_have(name, sign):
    values, mode = curves(), "min" if sign == 1 else "max"
    uninterrupted = train(new(name, mode), range(TRIALS), values, sign=sign)
    half = range(TRIALS // 2)
    before = train(new(name, mode), half, values, sign=sign)
    resumed = new(name, mode)
    resumed.recall(study_after(before, values, sign))
    after = train(resumed, range(len(half), TRIALS), values, driver=1, sign=sign)
    assert {**before, **after} == uninterrupted


@every_scheduler
def test_trials_are_stopped_by_all_but_none(name):
    steps = train(new(name), range(TRIALS), curves())
    stopped = sum(count < STEPS for count in steps.values())
    assert (stopped == 0) == (name == "none")


@every_scheduler
def test_the_best_trial_runs_to_its_end(name):
    values = curves()
    best = min(range(TRIALS), key=lambda number: min(values[number]))
    values[best] = [value - 5 for value in values[best]]  # the best from the first result on
    scheduler = new(name)
    steps = train(scheduler, range(TRIALS), values)
    assert finish(scheduler, steps, values)[best] == STEPS


@every_scheduler
def test_no_trial_is_stopped_before_its_grace_is_over(name):
    steps = train(new(name, grace=0.5), range(TRIALS), curves())
    assert min(steps.values()) >= 4


@every_scheduler
def test_a_result_that_a_resumed_trial_repeats_changes_nothing(name):
    scheduler, values = new(name), curves()
    scheduler.recall(study_after(dict.fromkeys(range(6), 3), values))
    scheduler.on_trial_add(CONTROLLER, ray_trial(0))
    decisions = [send(scheduler, 0, step, values[0][step - 1]) for step in (1, 2, 3)]
    assert decisions == [CONTINUE] * 3


@every_scheduler
def test_a_trial_without_a_value_yet_is_not_stopped(name):
    scheduler = new(name)
    train(scheduler, range(6), curves())
    scheduler.on_trial_add(CONTROLLER, ray_trial(6))
    assert send(scheduler, 6, 1, math.nan) == CONTINUE
