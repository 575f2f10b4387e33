"""The instrument itself: exact gradients, and estimators whose quality is known."""

import numpy as np
import pytest
import torch

from tardis_core.analysis import estimator_quality as eq
from tardis_core.build import build_network, build_task
from tardis_core.config import make_config

K = 3


@pytest.fixture(scope="module")
def problem():
    """Copy of one vector, with weights large enough that reads matter."""
    settings = {
        "task.longest": 1,
        "model.hidden": 4,
        "memory.cells": K,
        "memory.content": 3,
        "memory.attention": 3,
    }
    config = make_config("copy", "tardis", "gumbel", "smoke", overrides=settings)
    task = build_task(config, None)
    network = build_network(config, task.signature)
    generator = torch.Generator().manual_seed(0)
    weights = {
        name: value if value.ndim == 0 else torch.randn(value.shape, generator=generator)
        for name, value in network.state_dict().items()
    }
    batch = task.make(1, 2, np.random.default_rng(0))
    return eq.Problem(config, weights, batch, task.signature)


@pytest.fixture(scope="module")
def truth(problem):
    network = eq.network_of(problem, "reinforce", {})
    return eq.gradient_of(eq.expected_loss(network, problem.signature, problem.batch), network)


def test_no_path_reads_a_cell_twice_in_a_row():
    read_TP = eq.paths(4, K)
    assert read_TP.shape == (4, K * (K - 1) ** 3)
    assert (read_TP[1:] != read_TP[:-1]).all()
    assert len(set(map(tuple, read_TP.T.tolist()))) == read_TP.shape[1]


def test_the_exact_gradient_is_that_of_differences(problem, truth):
    network = eq.network_of(problem, "reinforce", {}).double()
    direction = torch.randn(truth.shape, generator=torch.Generator().manual_seed(1)).double()
    values, parameters = [], list(eq.shared_parameters(network).values())
    start = torch.nn.utils.parameters_to_vector(parameters).detach()
    for sign in (1, -1):
        torch.nn.utils.vector_to_parameters(start + sign * 1e-6 * direction, parameters)
        values.append(float(eq.expected_loss(network, problem.signature, problem.batch).detach()))
    slope = (values[0] - values[1]) / 2e-6
    assert float(truth.double() @ direction) == pytest.approx(slope, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings", "unbiased"),
    [
        ("reinforce", {"estimator.baseline": "none"}, True),
        ("rloo", {}, True),
        ("counterfactual", {}, True),
        ("counterfactual", {"estimator.likeliest": 1}, True),
        ("straight-through", {}, False),
        ("soft", {}, False),
    ],
)
def test_it_tells_unbiased_estimators_from_biased_ones(problem, truth, name, settings, unbiased):
    network = eq.network_of(problem, name, settings)
    own = eq.estimates(network, problem, 150, seed=0)
    result = eq.quality(own, truth)
    assert own.seconds > 0
    assert (result.bias < 2 * result.uncertainty) == unbiased
    if unbiased:
        assert result.uncertainty < 0.5  # there is something to tell apart
        assert 0 < result.cosine < 1


def test_quality_by_hand():
    gradients = torch.tensor([[3.0, 1.0], [1.0, -1.0], [2.0, 0.0]])
    result = eq.quality(eq.Estimates(gradients, seconds=0.5), torch.tensor([1.0, 0.0]))
    variance = 1 + 1
    assert result.deviation == pytest.approx(variance**0.5)
    assert result.uncertainty == pytest.approx((variance / 3) ** 0.5)
    assert result.bias == pytest.approx((1 - variance / 3) ** 0.5)
    assert result.signal_per_second == pytest.approx(4 / variance / 0.5)
    assert result.cosine == pytest.approx((3 / 10**0.5 + 1 / 2**0.5 + 1) / 3)


def test_the_exact_gradient_trains(problem):
    network = eq.network_of(problem, "reinforce", {})
    batches = iter([problem.batch] * 40)
    losses = list(eq.descend(network, problem.signature, batches, 40, 0.02))
    assert len(losses) == 40
    assert losses[-1] < 0.7 * losses[0]


def test_the_mask_covers_the_addressing(problem):
    network = eq.network_of(problem, "gumbel", {})
    count = sum(each.numel() for each in network.model.addressing.parameters())
    assert int(eq.addressing_mask(network).sum()) == count
