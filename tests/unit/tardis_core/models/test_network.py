"""Predictions are made where somebody asks for them, and are the same there as everywhere."""

import pytest
import torch

from tardis_core.build import build_network
from tardis_core.config import make_config
from tardis_core.models.network import Encoder
from tardis_core.tasks.base import Signature

T, B, INPUTS, OUTPUTS = 5, 3, 4, 2


def network():
    torch.manual_seed(0)
    config = make_config("copy", "tardis", "reinforce", "smoke")
    return build_network(config, Signature(INPUTS, False, OUTPUTS, bits=True)).double()


def predict(network, asked_TB):
    inputs = torch.randn(T, B, INPUTS, generator=torch.Generator().manual_seed(1)).double()
    return network(inputs, asked_TB=asked_TB)[0]


def gradients(network, prediction, asked_TB):
    network.zero_grad()
    both = prediction.logits_TBO.square() + prediction.memory_logits_TBO.square()
    both[asked_TB].sum().backward()
    return {name: each.grad for name, each in network.named_parameters() if each.grad is not None}


@pytest.mark.parametrize("asked", [[], [7], [3, 4, 11], range(T * B)], ids=len)
def test_what_is_asked_for_is_what_all_steps_have_and_the_rest_is_zero(asked):
    asked_TB = torch.zeros(T * B, dtype=torch.bool)
    asked_TB[list(asked)] = True
    asked_TB = asked_TB.view(T, B)
    some, every = network(), network()
    result, full = predict(some, asked_TB), predict(every, None)
    for each, whole in zip(result[:2], full[:2], strict=True):
        torch.testing.assert_close(each[asked_TB], whole[asked_TB], rtol=0, atol=1e-14)
        assert not each[~asked_TB].any()
    actual, expected = gradients(some, result, asked_TB), gradients(every, full, asked_TB)
    assert actual.keys() == expected.keys()
    for name, gradient in actual.items():
        torch.testing.assert_close(gradient, expected[name], rtol=0, atol=1e-12)


def small(model="tardis", **overrides):
    torch.manual_seed(0)
    estimator = "reinforce" if model == "tardis" else None
    config = make_config("copy", model, estimator, "smoke", overrides=overrides)
    return build_network(config, Signature(INPUTS, False, OUTPUTS, bits=True))


def test_noise_is_drawn_with_a_generator_alone():
    asked_TB, inputs = torch.zeros(T, B, dtype=torch.bool), torch.ones(T, B, INPUTS)
    asked_TB[2, 1] = asked_TB[3, 0] = True
    dropping = small(**{"model.dropout": 0.5, "model.head": 6})
    for asked, steps in ((None, T * B), (asked_TB, 2)):
        generator = torch.Generator().manual_seed(0)
        prediction, _ = dropping(inputs, generator=generator, asked_TB=asked)
        assert prediction.dropout_NG.shape == (steps, 6)
        assert set(prediction.x_TBD.unique().tolist()) == {0.0, 2.0}
        assert prediction.noise.read_TBK.shape[:2] == (T, B)
    prediction, _ = dropping(inputs)
    assert (prediction.noise, prediction.dropout_NG) == (None, None)
    assert torch.equal(prediction.x_TBD, inputs)


def test_the_dropout_of_a_prediction_is_that_of_its_logits():
    network, inputs = small(**{"model.dropout": 0.5}), torch.ones(T, B, INPUTS)
    given, _ = network(inputs, generator=torch.Generator().manual_seed(0))
    again, _ = network.predict(given.hidden, given.x_TBD, None, given.dropout_NG)
    plain, _ = network.predict(given.hidden, given.x_TBD)
    assert torch.equal(again, given.logits_TBO)
    assert not torch.equal(plain, given.logits_TBO)


def test_the_memory_only_head_needs_a_memory_and_an_estimator_that_asks_for_it():
    inputs = torch.ones(T, B, INPUTS)
    assert small()(inputs)[0].memory_logits_TBO.shape == (T, B, OUTPUTS)
    assert small(**{"estimator.auxiliary": False})(inputs)[0].memory_logits_TBO is None
    lstm = small("lstm")
    assert lstm(inputs)[0].memory_logits_TBO is None
    lstm.memory_head = small().memory_head  # there is nothing it could read
    assert lstm(inputs)[0].memory_logits_TBO is None


@pytest.mark.parametrize("embedding", [0, 3])
def test_symbols_become_vectors_of_a_width(embedding):
    encoder = Encoder(INPUTS, True, embedding)
    x_TBD = encoder(torch.tensor([[2, 0]]), torch.float64)
    assert encoder.width == x_TBD.shape[-1] == (embedding or INPUTS)
    if not embedding:
        assert x_TBD.tolist() == [[[0, 0, 1, 0], [1, 0, 0, 0]]]
    vectors = Encoder(INPUTS, False, embedding)  # which need no embedding
    assert (vectors.width, vectors.embedding) == (INPUTS, None)
    assert vectors(torch.ones(1, 1, INPUTS), torch.float64).dtype == torch.float64


def test_the_boundary_is_a_symbol_or_a_channel():
    symbols = torch.tensor([[0, 3], [3, 1]])
    assert Encoder(INPUTS, True, 0).boundary_TB(symbols) is None
    expected = [[False, True], [True, False]]
    assert Encoder(INPUTS, True, 0, boundary=3).boundary_TB(symbols).tolist() == expected
    vectors = torch.nn.functional.one_hot(symbols, INPUTS).float()
    assert Encoder(INPUTS, False, 0, boundary=3).boundary_TB(vectors).tolist() == expected


def test_a_model_of_two_parts_is_told_where_the_first_ends_and_what_is_asked(monkeypatch):
    network, calls = small("lstm"), []
    network.encoder.boundary = 2
    forward = network.model.forward

    def noted(x_TBD, state, mask_TB, noise, *about):
        calls.append(about)
        return forward(x_TBD, state, mask_TB, noise)

    monkeypatch.setattr(network.model, "forward", noted)
    inputs, asked_TB = torch.zeros(T, B, INPUTS), torch.ones(T, B, dtype=torch.bool)
    inputs[1, :, 2] = 1
    network(inputs, asked_TB=asked_TB)
    assert calls == [()]
    monkeypatch.setattr(type(network.model), "two_parts", True)
    network(inputs, asked_TB=asked_TB)
    boundary_TB, asked = calls[1]
    assert boundary_TB.nonzero().tolist() == [[1, 0], [1, 1], [1, 2]]
    assert asked is asked_TB
