"""The replays of schedulers and races do what a sweep would do with the same curves."""

import random

import pytest

from benchmarks.speed import race, schedulers
from orchestrator.execution.schedulers.base import SCHEDULERS


def ranked(count):
    """Curves that never cross, the best last."""
    return [[1 - number / count] * schedulers.STEPS for number in range(count)]


def test_without_a_scheduler_everything_is_trained():
    result = schedulers.replay("none", ranked(6))
    assert result.validations == 6 * schedulers.STEPS
    assert len(result.complete) == 6


@pytest.mark.parametrize("name", SCHEDULERS.names())
def test_every_scheduler_finds_a_winner_that_always_leads(name):
    result = schedulers.replay(name, ranked(12))
    assert min(result.complete, key=result.complete.get) == 11
    assert 0 <= result.kept <= 1


def test_promotion_keeps_every_trial_of_the_best_third_whatever_their_order():
    for seed in range(10):
        curves = ranked(18)
        random.Random(seed).shuffle(curves)
        assert schedulers.replay("promote", curves).kept == 1


def test_curves_that_are_recorded_are_whole():
    for curve in schedulers.recorded(random.Random(0)):
        assert len(curve) == schedulers.STEPS


@pytest.mark.parametrize("seed", range(10))
def test_by_the_worst_seed_a_race_has_the_winner_of_all_runs_for_less(seed):
    configurations = race.synthetic(random.Random(seed))
    raced, whole = race.race(configurations, "worst"), race.full(configurations, "worst")
    assert raced.winner == whole.winner
    assert raced.runs < 0.8 * whole.runs == 0.8 * 96
