"""Proposals repeat with the seed, and nobody is warned of what was chosen on purpose."""

import warnings

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

import search_spaces
from search_spaces.engine.tpe import GOOD, LATEST, remembered

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


def ended(value, x=0.5):
    return create_trial(value=value, params={"x": x}, distributions={"x": FloatDistribution(0, 1)})


def pruned(step, value):
    return create_trial(state=TrialState.PRUNED, intermediate_values={step: value})


def kept(trials, direction=StudyDirection.MINIMIZE):
    for number, trial in enumerate(trials):
        trial.number = number
    return [trial.number for trial in remembered(trials, direction)]


def test_up_to_a_number_of_trials_all_are_remembered():
    assert kept([ended(1.0) for _ in range(LATEST)]) == list(range(LATEST))


@pytest.mark.parametrize(
    ("direction", "sign"), [(StudyDirection.MINIMIZE, 1), (StudyDirection.MAXIMIZE, -1)]
)
def test_of_many_the_best_the_latest_and_the_running_are_remembered(direction, sign):
    count = 2 * LATEST
    running = [create_trial(state=TrialState.RUNNING)]
    trials = [ended(sign * abs(number - 100)) for number in range(count)]
    found = kept(running + trials, direction)
    best = [number + 1 for number in range(count) if abs(number - 100) <= GOOD // 2]
    latest = range(1 + count - LATEST, 1 + count)
    assert found == [0, *best, *latest]


def test_a_pruned_trial_is_among_the_best_only_if_too_few_have_ended():
    few = [pruned(3, 0.1), pruned(9, 0.8), *(ended(1.0) for _ in range(GOOD - 1))]
    many = [pruned(1, 0.1) for _ in range(LATEST)]
    assert kept(few + many) == list(range(1, len(few + many)))


def proposed(sampler, trials):
    study = optuna.create_study(sampler=sampler)
    study.add_trials(trials)
    return study.ask().suggest_float("x", 0, 1)


def test_with_few_trials_it_is_tpe_as_it_comes():
    trials = [ended((number % 17 - 8) ** 2, number % 17 / 17) for number in range(60)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = optuna.samplers.TPESampler(seed=3, multivariate=True, group=True)
    assert proposed(search_spaces.sampler(3), trials) == proposed(plain, trials)


def test_a_forgotten_trial_changes_nothing_and_the_best_are_never_forgotten():
    later = [ended(1.0 + number % 9, number % 9 / 9) for number in range(2 * LATEST)]
    low, high, good, better = (
        proposed(search_spaces.sampler(3), [ended(value, x) for _ in range(GOOD)] + later)
        for value, x in [(50.0, 0.1), (50.0, 0.9), (0.0, 0.1), (0.0, 0.9)]
    )
    assert low == high
    assert good == pytest.approx(0.1, abs=0.2)
    assert better == pytest.approx(0.9, abs=0.2)
