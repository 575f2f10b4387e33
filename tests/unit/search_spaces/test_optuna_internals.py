"""What the search relies on in Optuna's private code; if this fails, compare TPE's source again."""

import inspect
import warnings

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.samplers._tpe.sampler import default_gamma
from optuna.trial import create_trial

from search_spaces.engine.optuna_internals import MAX_BEST_TRIALS, study_with_trials

X = {"x": FloatDistribution(0, 1)}


def study_of(count):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.add_trials(
        create_trial(value=n % 7, params={"x": n % 7 / 7}, distributions=X) for n in range(count)
    )
    return study


def tpe():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # multivariate and group are experimental
        return optuna.samplers.TPESampler(seed=0, multivariate=True, group=True)


def running_trial(study):
    return study._storage.get_trial(study.ask()._trial_id)


def test_the_version_was_tested():
    assert optuna.__version__.startswith("5.0.")


def test_get_trials_has_the_overridden_signature():
    override = type(study_with_trials(study_of(0), []))._get_trials
    original = optuna.Study._get_trials
    assert [*inspect.signature(override).parameters] == [*inspect.signature(original).parameters]


def test_the_number_of_best_trials_is_bounded():
    assert default_gamma(50) == 5
    assert default_gamma(10 * MAX_BEST_TRIALS) == MAX_BEST_TRIALS
    assert default_gamma(100 * MAX_BEST_TRIALS) == MAX_BEST_TRIALS


def test_tpe_reads_trials_only_through_get_trials(monkeypatch):
    study, sampler = study_of(40), tpe()
    partial, trial = study_with_trials(study, study.get_trials()[:20]), running_trial(study)
    for name in ("_get_trials", "get_trials", "trials"):
        monkeypatch.setattr(optuna.Study, name, None)  # a call would fail
    space = sampler.infer_relative_search_space(partial, trial)
    assert space == X
    assert 0 <= sampler.sample_relative(partial, trial, space)["x"] <= 1
    assert 0 <= sampler.sample_independent(partial, trial, "x", X["x"]) <= 1


def test_a_partial_study_is_sampled_like_a_smaller_one():
    large, small = study_of(40), study_of(20)
    partial = study_with_trials(large, large.get_trials()[:20])
    assert proposal(partial) == proposal(small) != proposal(large)


def proposal(study):
    sampler, trial = tpe(), running_trial(study)
    space = sampler.infer_relative_search_space(study, trial)
    return sampler.sample_relative(study, trial, space)


@pytest.mark.parametrize("name", ["direction", "directions", "sampler", "_is_multi_objective"])
def test_everything_else_is_delegated(name):
    study = study_of(1)
    assert getattr(study_with_trials(study, []), name) == getattr(study, name)
