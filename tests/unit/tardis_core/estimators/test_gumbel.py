"""Straight-through Gumbel-softmax: forward a one-hot sample, backward the softmax."""

import math

import pytest
import torch
from torch import tensor

from tardis_core.estimators.gumbel import Gumbel, GumbelConfig
from tardis_core.estimators.noise import gumbel


def doubles(values):
    return tensor(values, dtype=torch.float64)


def make(hidden=3, w=None, b=None):
    estimator = Gumbel(GumbelConfig(), inputs=2, hidden=hidden).double()
    with torch.no_grad():
        if w is not None:
            estimator.w_tau.weight.copy_(doubles([w]))
        if b is not None:
            estimator.w_tau.bias.fill_(b)
    return estimator


def randn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_inverse_temperature_by_hand():
    # softplus(ln(e - 1)) = 1; softplus(0) = ln 2
    estimator = make(hidden=1, w=[math.log(math.e - 1)], b=0.0)
    result = estimator.inverse_temperature(doubles([[1.0], [0.0]]))
    assert result.flatten().tolist() == pytest.approx([2.0, 1 + math.log(2)], abs=1e-12)


@pytest.mark.parametrize("bias", [-1000.0, -1.0, 0.0, 1000.0])
def test_inverse_temperature_is_never_below_one(bias):
    tau = make(b=bias).inverse_temperature(randn(50, 3))
    assert (tau >= 1).all()
    assert tau.isfinite().all()


def test_gradient_is_that_of_the_softmax_by_autograd():
    estimator = make(w=[0.4, -1.2, 0.3], b=0.7)
    pi, h = randn(4, 5, seed=1).requires_grad_(), randn(4, 3, seed=2).requires_grad_()
    noise, weight = randn(4, 5, seed=3), randn(4, 5, seed=4)
    wanted = [pi, h, estimator.w_tau.weight, estimator.w_tau.bias]
    hard = estimator.read_weights(pi, noise, h)
    mine = torch.autograd.grad((hard * weight).sum(), wanted)
    logit = h @ estimator.w_tau.weight.T + estimator.w_tau.bias
    soft = torch.softmax((pi + noise) * (torch.log1p(logit.exp()) + 1), -1)
    theirs = torch.autograd.grad((soft * weight).sum(), wanted)
    for one, other in zip(mine, theirs, strict=True):
        assert other.abs().max() > 1e-3
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_gradient_of_the_logits_by_hand():
    """d w_i / d pi_k = tau s_i ([i = k] - s_k), with s = softmax((pi + g) tau)."""
    estimator = make(hidden=1, w=[0.0], b=math.log(math.e - 1))  # tau 2
    pi = doubles([[0.1, 0.5]]).requires_grad_()
    w = estimator.read_weights(pi, doubles([[0.7, -0.2]]), torch.zeros(1, 1).double())
    assert w.tolist() == [[1.0, 0.0]]
    w[0, 0].backward()
    s = 1 / (1 + math.exp(-2 * (0.8 - 0.3)))
    expected = 2 * s * (1 - s)
    assert pi.grad[0].tolist() == pytest.approx([expected, -expected], rel=1e-6)


def test_the_temperature_learns():
    estimator = make(w=[0.4, -1.2, 0.3], b=0.7)
    w = estimator.read_weights(randn(1, 4), randn(1, 4, seed=1), randn(1, 3, seed=2))
    w[0, 0].backward()
    assert estimator.w_tau.weight.grad.abs().min() > 0
    assert estimator.w_tau.bias.grad.abs() > 0


def test_kernels_are_given_the_learned_temperature_and_scale_the_noise_with_it():
    estimator = make()
    assert estimator.learned_temperature() is estimator.w_tau
    assert estimator.noisy_temperature


def test_evaluation_takes_the_greatest_logit():
    pi = doubles([[0.0, 3.0, 1.0], [-1.0, -5.0, -0.9]])
    w = make().read_weights(pi, None, randn(2, 3))
    assert w.tolist() == [[0, 1, 0], [0, 0, 1]]


def test_forward_is_exactly_one_hot_in_float32():
    generator = torch.Generator().manual_seed(0)
    pi, noise = (10 * torch.randn(500, 7, generator=generator) for _ in range(2))
    w = make().float().read_weights(pi, noise, torch.randn(500, 3, generator=generator))
    expected = torch.nn.functional.one_hot((pi + noise).argmax(-1), 7).float()
    assert torch.equal(w, expected)


def test_samples_follow_the_softmax_of_the_logits():
    pi = doubles([0.5, -1.0, 2.0, 0.0])
    count = 40_000
    noise = gumbel((count, 4), pi, torch.Generator().manual_seed(0))
    w = make().read_weights(pi.expand(count, 4), noise, torch.zeros(count, 3).double())
    expected = torch.softmax(pi, -1)
    deviation = (expected * (1 - expected) / count).sqrt()
    assert ((w.mean(0) - expected).abs() < 4 * deviation).all()


def test_gumbel_noise_has_the_mean_and_variance_of_the_distribution():
    noise = gumbel((200_000,), torch.zeros(1).double(), torch.Generator().manual_seed(1))
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.01)
    assert noise.var().item() == pytest.approx(math.pi**2 / 6, rel=0.02)


def test_gumbel_noise_is_finite_even_where_the_uniform_draw_is_zero(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda shape, **_: torch.zeros(shape))
    noise = gumbel((3,), torch.zeros(1), torch.Generator())
    assert noise.tolist() == pytest.approx([math.log(2**25)] * 3)


def test_gumbel_adds_nothing_to_the_loss():
    assert make().loss(None) == (None, {})
