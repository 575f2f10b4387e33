"""What every registered model must do, with every estimator that applies to it."""

import copy
import dataclasses

import pytest
import torch

from tardis_core import kernels
from tardis_core.build import build_network
from tardis_core.config import make_config
from tardis_core.estimators.base import ESTIMATORS
from tardis_core.models.base import MODELS, flatten_state, map_state
from tardis_core.tasks.base import TASKS, Batch
from tardis_core.training.objective import objective
from tests.support.systems import SYSTEMS

SIGNATURE = TASKS.get("copy").signature
TINY = {
    "model.hidden": 6,
    "model.hyper_hidden": 4,
    "model.hyper_embedding": 2,
    "model.attention": 3,
    "model.span": 4,
    "memory.cells": 3,
    "memory.address": 2,
    "memory.content": 3,
    "memory.heads": 2,
    "memory.nearest": 2,
}
every_model = pytest.mark.parametrize(("model", "estimator"), SYSTEMS)
DISCRETE = [name for name in MODELS.names() if MODELS.get(name).discrete]
discrete_model = pytest.mark.parametrize("model", DISCRETE)


def tiny_network(model, estimator, seed=0, **overrides):
    """A network in float64, as small as its settings allow."""
    sizes = {key: value for key, value in TINY.items() if key in settings_of(model)}
    config = make_config("copy", model, estimator, "smoke", seed, sizes | overrides)
    return build_network(config, SIGNATURE).double()


def settings_of(model):
    """The names of the settings that a model has."""
    kind = MODELS.get(model)
    sections = {"model": kind.Config, "memory": kind.Memory}
    return {
        f"{section}.{field.name}"
        for section, settings in sections.items()
        if settings is not None
        for field in dataclasses.fields(settings)
    }


def vectors(T=7, B=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(T, B, SIGNATURE.inputs, generator=generator, dtype=torch.float64)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def assert_same_states(mine, theirs):
    for one, other in zip(flatten_state(mine), flatten_state(theirs), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def remembered(module):
    """All that the modules hold beside parameters, in a copy."""
    skip = {"_parameters", "_modules"}
    return {
        name: copy.deepcopy({k: v for k, v in vars(part).items() if k not in skip})
        for name, part in module.named_modules()
    }


def same(one, other):
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@every_model
@pytest.mark.parametrize("cut", [1, 4])
def test_a_sequence_in_two_parts_equals_the_whole(model, estimator, cut):
    network, x = tiny_network(model, estimator), vectors()
    whole, state = network(x)
    first, between = network(x[:cut])
    second, after = network(x[cut:], between)
    parts = torch.cat([first.logits_TBO, second.logits_TBO])
    torch.testing.assert_close(parts, whole.logits_TBO, rtol=0, atol=1e-12)
    assert_same_states(after, state)
    forgetful, _ = network(x[cut:])
    assert not torch.allclose(forgetful.logits_TBO, whole.logits_TBO[cut:])


@every_model
def test_a_state_survives_being_taken_apart_and_detached(model, estimator):
    network, x = tiny_network(model, estimator), vectors()
    _, state = network(x[:3])
    copied = map_state(lambda part: part.detach().clone(), state)
    one, _ = network(x[3:], state)
    other, _ = network(x[3:], copied)
    assert type(copied) is type(state)
    assert torch.equal(one.logits_TBO, other.logits_TBO)
    assert all(part.shape[0] == 3 for part in flatten_state(state))  # the batch comes first


@every_model
def test_a_state_passed_in_is_not_changed(model, estimator):
    network, x = tiny_network(model, estimator), vectors()
    _, state = network(x[:3])
    before = [part.detach().clone() for part in flatten_state(state)]
    network(x[3:], state, None, seeded())
    assert all(map(torch.equal, flatten_state(state), before))


@every_model
def test_a_fresh_start_is_the_initial_state(model, estimator):
    network, x = tiny_network(model, estimator), vectors()
    one, _ = network(x)
    other, _ = network(x, network.model.initial_state(3, x))
    torch.testing.assert_close(one.logits_TBO, other.logits_TBO, rtol=0, atol=1e-12)


@every_model
def test_nothing_of_a_sequence_stays_on_the_module(model, estimator):
    network = tiny_network(model, estimator, **{"model.dropout": 0.2})
    before = remembered(network)
    mask = torch.arange(7).unsqueeze(1) < torch.tensor([7, 3, 5])
    network(vectors(), None, mask, seeded())
    network(vectors(seed=1))
    assert same(remembered(network), before)


@every_model
def test_without_noise_the_network_is_deterministic(model, estimator):
    network, x = tiny_network(model, estimator), vectors()
    torch.manual_seed(0)
    one, _ = network(x)
    torch.manual_seed(1)
    other, _ = network(x)
    assert torch.equal(one.logits_TBO, other.logits_TBO)


@every_model
def test_all_noise_comes_from_the_generator(model, estimator):
    rates = {"model.dropout": 0.3, "model.recurrent_dropout": 0.3}
    overrides = {key: value for key, value in rates.items() if key in settings_of(model)}
    network, x = tiny_network(model, estimator, **overrides), vectors()
    torch.manual_seed(0)
    one, _ = network(x, generator=seeded(1))
    torch.manual_seed(5)
    same_seed, _ = network(x, generator=seeded(1))
    other_seed, _ = network(x, generator=seeded(2))
    assert torch.equal(one.logits_TBO, same_seed.logits_TBO)
    assert not torch.equal(one.logits_TBO, other_seed.logits_TBO)


@every_model
def test_initial_weights_are_a_function_of_the_seed(model, estimator):
    one, again, other = (tiny_network(model, estimator, seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


@every_model
def test_weights_saved_and_loaded_give_the_same_outputs(model, estimator, tmp_path):
    network, x = tiny_network(model, estimator, seed=1), vectors()
    stranger = tiny_network(model, estimator, seed=2)
    expected = network(x)[0].logits_TBO
    assert not torch.equal(stranger(x)[0].logits_TBO, expected)
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    stranger.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    assert torch.equal(stranger(x)[0].logits_TBO, expected)


@every_model
def test_where_the_mask_is_false_the_state_stays(model, estimator):
    network, x = tiny_network(model, estimator), vectors()
    lengths = [7, 0, 4]
    mask = torch.arange(7).unsqueeze(1) < torch.tensor(lengths)
    masked, state = network(x, None, mask)
    for n, length in enumerate(lengths):
        own = network.model.initial_state(1, x)
        if length:
            alone, own = network(x[:length, n : n + 1])
            torch.testing.assert_close(
                masked.logits_TBO[:length, n], alone.logits_TBO[:, 0], rtol=0, atol=1e-12
            )
        assert_same_states(map_state(lambda part, n=n: part[n : n + 1], state), own)


@every_model
def test_outputs_depend_on_the_past_and_never_on_the_future(model, estimator):
    network, x = tiny_network(model, estimator), vectors()
    changed = x.clone()
    changed[4] += 1.0
    one, other = network(x)[0].logits_TBO, network(changed)[0].logits_TBO
    torch.testing.assert_close(one[:4], other[:4], rtol=0, atol=1e-12)
    assert not torch.allclose(one[5], other[5])


@pytest.mark.parametrize(
    ("model", "estimator"), [each for each in SYSTEMS if each[1] in ("gumbel", None)]
)
def test_gradients_reach_every_parameter(model, estimator):
    T = 20
    network, x = tiny_network(model, estimator), vectors(T)
    batch = Batch(x, torch.ones(T, 3, SIGNATURE.outputs), torch.ones(T, 3, dtype=torch.bool))
    prediction, _ = network(x, generator=seeded())
    SIGNATURE.loss(SIGNATURE.log_likelihood(prediction.logits_TBO, batch), batch).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@every_model
def test_discrete_models_say_how_they_chose(model, estimator):
    network = tiny_network(model, estimator)
    hidden = network(vectors())[0].hidden
    if MODELS.get(model).discrete:
        assert torch.equal(hidden.reads.pi_TBK.argmax(-1), hidden.reads.read_TB)
    assert (hidden.r_TBQ is not None) == (network.model.read_width > 0)
    if hidden.r_TBQ is not None:
        assert hidden.r_TBQ.shape[-1] == network.model.read_width


@pytest.mark.parametrize(
    ("model", "estimator"),
    [
        (model, name)
        for model in DISCRETE
        for name in ESTIMATORS.names()
        if name != "counterfactual" or MODELS.get(model).reads_alone
    ],
)
def test_a_model_that_chooses_trains_with_every_estimator(model, estimator):
    network, x = tiny_network(model, estimator), vectors()
    network.model.before_batch(1.0)  # of the discrete D-NTM the last batches are discrete
    batch = Batch(x, torch.ones(7, 3, SIGNATURE.outputs), torch.ones(7, 3, dtype=torch.bool))
    objective(network, SIGNATURE, batch, None, seeded(), 0.5).loss.backward()
    for part in network.model.choosing():
        gradients = [each.grad for each in part.parameters()]
        assert any(each is not None and each.any() for each in gradients)
        assert all(each is None or each.isfinite().all() for each in gradients)


@discrete_model
def test_the_estimator_draws_the_noise_of_a_model_that_chooses(model):
    cold = {"estimator.forward_temperature": 1e-9}
    network = tiny_network(model, "straight-through", **cold)
    reads = network(vectors(), generator=seeded())[0].hidden.reads
    assert torch.equal(reads.read_TB, reads.pi_TBK.argmax(-1))


@discrete_model
def test_the_estimator_of_a_model_that_chooses_follows_the_training(model):
    """The temperature of soft reads falls, so that the last ones are nearly of one cell."""
    soft = {"estimator.temperature": 10.0, "estimator.final_temperature": 1e-6}
    network = tiny_network(model, "soft", **soft)
    network.model.before_batch(1.0)
    pi = torch.tensor([[0.1, 0.3, 0.2]], dtype=torch.float64)
    w = network.model.estimator.read_weights(pi, torch.zeros_like(pi), torch.zeros(1, 6))
    torch.testing.assert_close(w, torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64))


@every_model
def test_dropout_of_the_inputs_drops_some_and_scales_the_rest(model, estimator):
    network, x = tiny_network(model, estimator, **{"model.dropout": 0.75}), vectors(T=20)
    seen = network(x, generator=seeded())[0].x_TBD
    kept = seen != 0
    torch.testing.assert_close(seen[kept], 4 * x[kept])
    assert kept.double().mean().item() == pytest.approx(0.25, abs=0.06)
    assert torch.equal(network(x)[0].x_TBD, x)


@every_model
def test_mixed_precision_comes_close_and_keeps_the_state_in_float32(model, estimator):
    network, x = tiny_network(model, estimator).float(), vectors(T=3).float()
    expected, _ = network(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual, state = network(x)
    torch.testing.assert_close(actual.logits_TBO.float(), expected.logits_TBO, rtol=0.1, atol=0.1)
    assert all(part.dtype in (torch.float32, torch.int64) for part in flatten_state(state))


@every_model
def test_these_tests_run_the_readable_model(model, estimator):
    assert kernels.resolve(tiny_network(model, estimator).model, vectors()) == "reference"
