"""Predictions are made where somebody asks for them, and are the same there as everywhere."""

import pytest
import torch

from tardis_core.build import build_network
from tardis_core.config import make_config
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
