"""Racing seeds: who cannot win any more gets no other seed, and every driver decides alike."""

import math
from types import SimpleNamespace

import optuna
import pytest
from optuna.trial import TrialState
from ray.tune.schedulers import TrialScheduler

from orchestrator.execution.race import Complete, Race, is_clearly_worse
from orchestrator.execution.result import FINISHED, FIRST_SEED, OBJECTIVE, SEED_VALUES
from orchestrator.execution.schedulers.base import SCHEDULERS, Rule

STOP, CONTINUE = TrialScheduler.STOP, TrialScheduler.CONTINUE
FIRST = 4  # results of the first seed


@pytest.mark.parametrize(
    ("first", "sign", "worse"),
    [(0.41, -1.0, True), (0.39, -1.0, False), (0.41, 1.0, False), (0.39, 1.0, True)],
)
def test_by_the_worst_seed_one_that_is_worse_than_the_best_cannot_win(first, sign, worse):
    others = [Complete(0.4, [0.4, 0.2]), Complete(0.4 - sign * 0.1, [0.5, 0.5])]
    assert is_clearly_worse(first, others, "worst", sign) is worse


def test_by_the_mean_it_must_be_behind_by_more_than_chance_explains():
    others = [Complete(0.4, [0.3, 0.5]), Complete(0.6, [0.55, 0.65])]
    # By hand: s^2 = (0.02 + 0.005) / 2, t(0.95, 2 degrees) = 2.919986
    limit = 2.919986 * math.sqrt(0.0125 * 1.5)
    assert not is_clearly_worse(0.4 + limit - 1e-6, others, "mean", -1.0)
    assert is_clearly_worse(0.4 + limit + 1e-6, others, "mean", -1.0)


@pytest.mark.parametrize("aggregate", ["mean", "worst"])
def test_without_a_complete_trial_every_seed_is_trained(aggregate):
    assert not is_clearly_worse(9.0, [], aggregate, -1.0)


def test_one_complete_trial_of_two_seeds_says_nothing_about_chance():
    assert not is_clearly_worse(9.0, [Complete(0.4, [0.3, 0.5])], "mean", -1.0)


def new(inner="none"):
    rule = Rule("min", FIRST, 1 / 9)
    return Race(SCHEDULERS.get(inner)(rule), rule, "worst")


def send(race, number, step, value, seeds=(), finished=False):
    result = {OBJECTIVE: value, "training_iteration": step, FINISHED: finished}
    trial = SimpleNamespace(trial_id=f"ray{number}", config={"number": number})
    return race.on_trial_result(None, trial, {**result, SEED_VALUES: list(seeds)})


def complete(race, number, value):
    send(race, number, FIRST, value, [value])
    send(race, number, 2 * FIRST, value, [value, value], finished=True)


def test_a_trial_that_is_worse_with_its_first_seed_is_stopped_there():
    race = new()
    complete(race, 0, 0.4)
    assert [send(race, 1, step, 0.5) for step in (1, 2, 3)] == [CONTINUE] * 3
    assert send(race, 1, FIRST, 0.5, [0.5]) == STOP
    assert send(race, 2, FIRST, 0.3, [0.3]) == CONTINUE


def test_the_scheduler_judges_the_first_seed_and_no_other():
    race = new("asha")
    for number in range(6):
        complete(race, number, 0.1 * number + 0.1)
        assert send(race, number, FIRST + 1, 9.0) == CONTINUE  # the second seed begins badly
    for number in (8, 9):
        race.on_trial_add(None, SimpleNamespace(trial_id="ray", config={"number": number}))
    assert send(race, 9, 1, 9.0) == CONTINUE  # nobody else has a first result here
    assert send(race, 8, 1, 9.5) == STOP


def study(*trials):
    """Trials by the values of their results; those that have all of them are complete."""
    new_study = optuna.create_study()
    for values in trials:
        asked = new_study.ask()
        for step, value in enumerate(values, start=1):
            asked.report(value, step)
        asked.set_user_attr(FIRST_SEED, FIRST)
        asked.set_user_attr(SEED_VALUES, [values[FIRST - 1]])
        if len(values) == 2 * FIRST:
            asked.set_user_attr(SEED_VALUES, [values[FIRST - 1], values[-1]])
            new_study.tell(asked, values[-1], state=TrialState.COMPLETE)
    return new_study.get_trials()


def test_a_new_driver_decides_as_the_old_one_would_have():
    race = new()
    race.recall(study([0.4] * 2 * FIRST))
    assert send(race, 1, FIRST, 0.5, [0.5]) == STOP
    assert send(race, 2, FIRST, 0.3, [0.3]) == CONTINUE


def test_a_trial_that_went_on_to_other_seeds_is_not_judged_again():
    race = new()
    race.recall(study([0.4] * 2 * FIRST, [0.5] * (FIRST + 1)))
    assert [send(race, 1, step, 0.5) for step in (1, 2, 3)] == [CONTINUE] * 3
    assert send(race, 1, FIRST, 0.5, [0.5]) == CONTINUE
