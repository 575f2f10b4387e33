"""Proposals are reproducible, bounded in cost, and free of warnings about chosen options."""

import warnings

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

import search_spaces
from search_spaces.engine.optuna_internals import MAX_BEST_TRIALS
from search_spaces.engine.tpe import (
    LATEST_TRIALS,
    STARTUP_TRIALS,
    relevant_trials,
    sampler,
)

ALL = ("gumbel", "reinforce")


def proposals(task, seed, count=STARTUP_TRIALS + 5):
    space = search_spaces.bind(search_spaces.load(task), "small", ALL)
    study = optuna.create_study(sampler=sampler(seed))
    for guess in space.first_guesses():
        study.enqueue_trial(guess)
    settings = []
    for _ in range(count):
        trial = study.ask()
        settings.append(space(trial))
        study.tell(trial, abs(settings[-1]["training.learning_rate"] - 2e-3))
    return settings


@pytest.mark.parametrize("task", search_spaces.names())
def test_the_same_seed_proposes_the_same(task):
    assert proposals(task, 7) == proposals(task, 7)


def test_another_seed_proposes_other_trials():
    first = search_spaces.load("ptb").first_guesses("small", ALL)
    one, two = proposals("ptb", 7), proposals("ptb", 8)
    assert one[: len(first)] == two[: len(first)]
    assert one[len(first)] != two[len(first)]


@pytest.mark.slow
def test_proposals_improve_with_results():
    """Over several seeds, because one search may start with a good guess by chance."""
    early, late = [], []
    for seed in range(6):
        rates = [each["training.learning_rate"] for each in proposals("ptb", seed, count=25)]
        misses = [abs(rate - 2e-3) for rate in rates]
        early += misses[4:10]
        late += misses[-6:]
    assert sum(late) < 0.8 * sum(early)


def test_only_warnings_of_chosen_options_are_suppressed():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sampler(0)
        warnings.warn("``other``", optuna.exceptions.ExperimentalWarning, stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["``other``"]


def ended(value, x=0.5):
    return create_trial(value=value, params={"x": x}, distributions={"x": FloatDistribution(0, 1)})


def pruned(step, value):
    return create_trial(state=TrialState.PRUNED, intermediate_values={step: value})


def relevant_numbers(trials, direction=StudyDirection.MINIMIZE):
    for number, trial in enumerate(trials):
        trial.number = number
    return [trial.number for trial in relevant_trials(trials, direction)]


def test_few_trials_are_all_relevant():
    trials = [ended(1.0) for _ in range(LATEST_TRIALS)]
    assert relevant_numbers(trials) == list(range(LATEST_TRIALS))


@pytest.mark.parametrize(
    ("direction", "sign"), [(StudyDirection.MINIMIZE, 1), (StudyDirection.MAXIMIZE, -1)]
)
def test_of_many_trials_the_best_latest_and_running_are_relevant(direction, sign):
    count = 2 * LATEST_TRIALS
    running = [create_trial(state=TrialState.RUNNING)]
    trials = [ended(sign * abs(number - 100)) for number in range(count)]
    relevant = relevant_numbers(running + trials, direction)
    best = [number + 1 for number in range(count) if abs(number - 100) <= MAX_BEST_TRIALS // 2]
    latest = range(1 + count - LATEST_TRIALS, 1 + count)
    assert relevant == [0, *best, *latest]


def test_pruned_trials_are_among_the_best_only_if_too_few_are_complete():
    few = [pruned(3, 0.1), pruned(9, 0.8), *(ended(1.0) for _ in range(MAX_BEST_TRIALS - 1))]
    many = [pruned(1, 0.1) for _ in range(LATEST_TRIALS)]
    assert relevant_numbers(few + many) == list(range(1, len(few + many)))


def proposed(sampler, trials):
    study = optuna.create_study(sampler=sampler)
    study.add_trials(trials)
    return study.ask().suggest_float("x", 0, 1)


def test_with_few_trials_it_proposes_what_plain_tpe_does():
    trials = [ended((number % 17 - 8) ** 2, number % 17 / 17) for number in range(60)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = optuna.samplers.TPESampler(seed=3, multivariate=True, group=True)
    assert proposed(sampler(3), trials) == proposed(plain, trials)


def test_left_out_trials_change_nothing_and_the_best_are_never_left_out():
    later = [ended(1.0 + number % 9, number % 9 / 9) for number in range(2 * LATEST_TRIALS)]
    low, high, good, better = (
        proposed(sampler(3), [ended(value, x) for _ in range(MAX_BEST_TRIALS)] + later)
        for value, x in [(50.0, 0.1), (50.0, 0.9), (0.0, 0.1), (0.0, 0.9)]
    )
    assert low == high
    assert good == pytest.approx(0.1, abs=0.2)
    assert better == pytest.approx(0.9, abs=0.2)
