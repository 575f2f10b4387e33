"""Proposals repeat with the seed, and nobody is warned of what was chosen on purpose."""

import warnings

import optuna
import pytest

import search_spaces

ALL = ("gumbel", "reinforce")
COUNT = 25  # beyond the first, random trials: TPE itself has to repeat


def proposals(task, seed):
    space = search_spaces.bind(search_spaces.load(task), "small", ALL)
    study = optuna.create_study(sampler=search_spaces.sampler(seed))
    for guess in space.first_guesses():
        study.enqueue_trial(guess)
    found = []
    for _ in range(COUNT):
        trial = study.ask()
        found.append(space(trial))
        study.tell(trial, abs(found[-1]["training.learning_rate"] - 2e-3))
    return found


@pytest.mark.parametrize("task", search_spaces.names())
def test_one_seed_proposes_the_same(task):
    assert proposals(task, 7) == proposals(task, 7)


def test_another_seed_proposes_something_else():
    first = search_spaces.load("ptb").first_guesses("small", ALL)
    one, two = proposals("ptb", 7), proposals("ptb", 8)
    assert one[: len(first)] == two[: len(first)]
    assert one[len(first)] != two[len(first)]


def test_it_learns_from_what_it_was_told():
    """Over several seeds: one search may begin luckily."""
    early, late = [], []
    for seed in range(6):
        misses = [abs(found["training.learning_rate"] - 2e-3) for found in proposals("ptb", seed)]
        early += misses[4:10]
        late += misses[-6:]
    assert sum(late) < 0.8 * sum(early)


def test_it_warns_of_nothing_and_leaves_other_warnings_alone():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search_spaces.sampler(0)
        warnings.warn("``other``", optuna.exceptions.ExperimentalWarning, stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["``other``"]
