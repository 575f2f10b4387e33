"""The contract of every space; a new file in search_spaces/ is tested automatically."""

import itertools
import random

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.samplers import RandomSampler

import search_spaces
from search_spaces.engine.probe import RecordingTrial, draw
from search_spaces.engine.ranges import MODEL_RANGES
from tardis_core.config import make_config
from tardis_core.models.base import MODELS
from tardis_core.scales import SCALES
from tardis_core.tasks.base import TASKS

ALL = ("gumbel", "reinforce")
ESTIMATORS = [("gumbel",), ("reinforce",), ALL]
BOTH = ("tardis", "lstm")
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
each_task = pytest.mark.parametrize("task", search_spaces.names())


def sampled(task, scale, estimators, models=search_spaces.DEFAULT_MODELS, seed=0, count=12):
    """Proposals of a real study, which refuses a parameter that changes from trial to trial."""
    study = optuna.create_study(sampler=RandomSampler(seed=seed))
    space = search_spaces.load(task)
    for _ in range(count):
        trial = study.ask()
        yield trial, space.space(trial, scale, estimators, models)


def drawn(task, scale, estimators, models, count):
    """As `sampled`, without a study, which takes ten times as long."""
    rng, space = random.Random(0), search_spaces.load(task)
    for number in range(count):
        trial = RecordingTrial(lambda _, distribution: draw(distribution, rng), number)
        proposal = space.space(trial, scale, estimators, models)
        yield {name: value for name, (_, value) in trial.asked.items()}, proposal


def resolve(task, scale, proposal):
    overrides = {key: value for key, value in proposal.items() if "." in key}
    return make_config(task, proposal["model"], proposal["estimator"], scale, overrides=overrides)


def check_proposal(task, scale, params, proposal):
    """The configuration of a proposal, which must be valid and agree with the parameters."""
    config = resolve(task, scale, proposal)
    resolved = config.settings() | {"model": config.model, "estimator": config.estimator}
    # Ray passes the parameters of the trial on, so they must agree with the settings.
    assert params.items() <= proposal.items() <= resolved.items(), (scale, proposal)
    return config


def test_every_task_has_a_space():
    assert search_spaces.names() == TASKS.names()


@each_task
def test_every_proposal_is_a_valid_run(task):
    for scale, estimators in itertools.product(SCALES, ESTIMATORS):
        seen = {
            check_proposal(task, scale, trial.params, proposal).estimator
            for trial, proposal in sampled(task, scale, estimators)
        }
        assert seen == set(estimators), scale


@each_task
def test_models_without_estimator_are_searched_beside_tardis(task):
    for scale in SCALES:
        seen = set()
        for trial, proposal in sampled(task, scale, ALL, BOTH):
            config = check_proposal(task, scale, trial.params, proposal)
            seen.add((config.model, config.estimator))
        assert seen == {("lstm", "none"), ("tardis", "gumbel"), ("tardis", "reinforce")}, scale


@each_task
def test_every_model_is_searched_over_its_own_settings(task):
    for scale, model in itertools.product(SCALES, MODELS.names()):
        asked = set()
        for params, proposal in drawn(task, scale, ALL, (model,), count=8):
            assert check_proposal(task, scale, params, proposal).model == model
            asked |= proposal.keys()
        assert set(MODEL_RANGES.get(model, {})) <= asked, (scale, model)


def test_ranges_belong_to_registered_models():
    assert set(MODEL_RANGES) <= set(MODELS.names())


@each_task
def test_a_micro_state_is_smaller_than_the_hidden_state(task):
    for scale in SCALES:
        for _, proposal in sampled(task, scale, ("gumbel",)):
            assert proposal["memory.content"] < proposal["model.hidden"], scale


@each_task
def test_the_space_contains_what_the_paper_varies(task):
    _, proposal = next(sampled(task, "paper", ("reinforce",)))
    assert proposal.keys() >= VARIED_IN_EVERY_TASK
    assert proposal.keys() >= {"estimator.auxiliary", "estimator.gamma", "estimator.entropy"}


@each_task
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_conditional_settings_depend_on_model_and_estimator(task, seed):
    for trial, proposal in sampled(task, "small", ALL, BOTH, seed, count=4):
        names = proposal.keys() | trial.params.keys()
        reinforce = proposal["estimator"] == "reinforce"
        assert any(name.startswith("estimator.") for name in names) == reinforce
        assert ("estimator.gamma" in trial.params) == reinforce
        tardis = proposal["model"] == "tardis"
        assert any(name.startswith(("memory.", "model.reset_")) for name in names) == tardis
        assert ("estimator" in trial.params) == tardis


@pytest.mark.parametrize("task", ["copy", "recall"])
def test_details_of_an_option_that_is_off_are_not_searched(task):
    for _, proposal in sampled(task, "small", ("reinforce",)):
        assert ("model.reset_bias" in proposal) == proposal["model.reset_gates"]
        assert ("estimator.auxiliary_share" in proposal) == proposal["estimator.auxiliary"]
        assert ("estimator.auxiliary_until" in proposal) == proposal["estimator.auxiliary"]


@each_task
def test_the_order_of_the_estimators_does_not_matter(task):
    """A study rejects the same choices in another order."""
    one = [proposal for _, proposal in sampled(task, "small", ("gumbel", "reinforce"), count=5)]
    two = [proposal for _, proposal in sampled(task, "small", ("reinforce", "gumbel"), count=5)]
    assert one == two


@each_task
def test_wrong_arguments_name_the_choices(task):
    space, trial = search_spaces.load(task), optuna.create_study().ask()
    with pytest.raises(ValueError, match=r"scale 'huge'.*smoke, small, paper"):
        space.space(trial, "huge", ("gumbel",))
    with pytest.raises(ValueError, match=r"scale 'huge'.*smoke, small, paper"):
        space.first_guesses("huge", ("gumbel",))
    with pytest.raises(ValueError, match="at least one estimator"):
        space.space(trial, "small", ())
