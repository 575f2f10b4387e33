"""Every space keeps the same promises; a new file in search_spaces/ joins by itself."""

import itertools

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.samplers import RandomSampler

import search_spaces
from search_spaces.engine.ranges import OF_MODELS
from tardis_core.config import make_config
from tardis_core.models.base import MODELS
from tardis_core.scales import SCALES
from tardis_core.tasks.base import TASKS

SETS = [("gumbel",), ("reinforce",), ("gumbel", "reinforce")]
BOTH = ("tardis", "lstm")
CASES = list(itertools.product(search_spaces.names(), SCALES, SETS))
VARIED_IN_EVERY_TASK = {
    "memory.cells",
    "memory.address",
    "memory.content",
    "model.hidden",
    "model.reset_gates",
    "model.layer_norm",
    "training.learning_rate",
    "training.clip",
}
optuna.logging.set_verbosity(optuna.logging.WARNING)


def sampled(task, scale, estimators, models=search_spaces.DEFAULT_MODELS, seed=0, count=100):
    study = optuna.create_study(sampler=RandomSampler(seed=seed))
    space = search_spaces.load(task)
    for _ in range(count):
        trial = study.ask()
        yield trial, space.space(trial, scale, estimators, models)


def resolve(task, scale, found):
    names = ("model", "estimator")
    overrides = {key: value for key, value in found.items() if key not in names}
    return make_config(task, found["model"], found["estimator"], scale, overrides=overrides)


def test_every_task_has_a_space():
    assert search_spaces.names() == TASKS.names()


@pytest.mark.parametrize(("task", "scale", "estimators"), CASES)
def test_what_is_proposed_is_a_run(task, scale, estimators):
    seen = set()
    for trial, found in sampled(task, scale, estimators):
        config = resolve(task, scale, found)
        assert config.estimator in estimators
        resolved = config.settings() | {"model": config.model, "estimator": config.estimator}
        # Ray hands the parameters of the trial over: they must say the same as the settings.
        assert trial.params.items() <= found.items() <= resolved.items()
        seen.add(config.estimator)
    assert seen == set(estimators)


@pytest.mark.parametrize("task", search_spaces.names())
@pytest.mark.parametrize("scale", SCALES)
def test_what_is_proposed_is_a_run_for_other_models_too(task, scale):
    seen = set()
    for _, found in sampled(task, scale, ("gumbel", "reinforce"), BOTH):
        seen.add((found["model"], resolve(task, scale, found).estimator))
    assert seen == {("lstm", "none"), ("tardis", "gumbel"), ("tardis", "reinforce")}


@pytest.mark.parametrize("model", MODELS.names())
@pytest.mark.parametrize("task", search_spaces.names())
@pytest.mark.parametrize("scale", SCALES)
def test_every_model_is_searched_over_settings_that_it_has(task, scale, model):
    asked = set()
    for trial, found in sampled(task, scale, ("gumbel", "reinforce"), (model,), count=8):
        config = resolve(task, scale, found)
        assert config.model == model
        resolved = config.settings() | {"model": config.model, "estimator": config.estimator}
        assert trial.params.items() <= found.items() <= resolved.items()
        asked |= found.keys()
    # What only this model has is searched, unless it is a detail that nobody turns.
    assert set(OF_MODELS.get(model, {})) <= asked


def test_ranges_are_of_models_that_there_are():
    assert set(OF_MODELS) <= set(MODELS.names())


@pytest.mark.parametrize("task", search_spaces.names())
@pytest.mark.parametrize("scale", SCALES)
def test_a_micro_state_is_narrower_than_the_hidden_state(task, scale):
    for _, found in sampled(task, scale, ("gumbel",)):
        assert found["memory.content"] < found["model.hidden"]


@pytest.mark.parametrize("task", search_spaces.names())
def test_the_space_has_what_the_paper_varies(task):
    _, found = next(sampled(task, "paper", ("reinforce",)))
    assert found.keys() >= VARIED_IN_EVERY_TASK
    assert found.keys() >= {"estimator.auxiliary", "estimator.gamma", "estimator.entropy"}


@pytest.mark.parametrize("task", search_spaces.names())
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_only_reinforce_trials_have_its_settings(task, seed):
    for trial, found in sampled(task, "small", ("gumbel", "reinforce"), BOTH, seed, count=4):
        has = any(name.startswith("estimator.") for name in found.keys() | trial.params.keys())
        assert has == ("estimator.gamma" in trial.params) == (found["estimator"] == "reinforce")


@pytest.mark.parametrize("task", search_spaces.names())
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_a_model_without_memory_has_no_settings_of_one(task, seed):
    for trial, found in sampled(task, "small", ("gumbel", "reinforce"), BOTH, seed, count=4):
        names = found.keys() | trial.params.keys()
        memory = {name for name in names if name.startswith(("memory.", "model.reset_"))}
        assert bool(memory) == (found["model"] == "tardis")
        assert ("estimator" in trial.params) == (found["model"] == "tardis")


@pytest.mark.parametrize("task", ["copy", "recall"])
def test_details_of_what_is_off_are_not_searched(task):
    for _, found in sampled(task, "small", ("reinforce",)):
        assert ("model.reset_bias" in found) == found["model.reset_gates"]
        assert ("estimator.auxiliary_share" in found) == found["estimator.auxiliary"]
        assert ("estimator.auxiliary_until" in found) == found["estimator.auxiliary"]


@pytest.mark.parametrize("task", search_spaces.names())
def test_the_order_of_the_estimators_does_not_matter(task):
    """A study refuses the same choices in another order."""
    one = [found for _, found in sampled(task, "small", ("gumbel", "reinforce"), count=5)]
    two = [found for _, found in sampled(task, "small", ("reinforce", "gumbel"), count=5)]
    assert one == two


@pytest.mark.parametrize("task", search_spaces.names())
def test_wrong_arguments_name_the_choices(task):
    space, trial = search_spaces.load(task), optuna.create_study().ask()
    with pytest.raises(ValueError, match=r"scale 'huge'.*smoke, small, paper"):
        space.space(trial, "huge", ("gumbel",))
    with pytest.raises(ValueError, match=r"scale 'huge'.*smoke, small, paper"):
        space.first_guesses("huge", ("gumbel",))
    with pytest.raises(ValueError, match="at least one estimator"):
        space.space(trial, "small", ())
