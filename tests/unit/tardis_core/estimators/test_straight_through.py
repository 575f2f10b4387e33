"""The straight-through estimators against NumPy, and how far from the truth their means are."""

import numpy as np
import pytest
import torch

from tardis_core.errors import UserError
from tardis_core.estimators.base import ESTIMATORS
from tardis_core.estimators.gumbel_rao import odds_given_the_cell
from tardis_core.estimators.noise import exponential, gumbel
from tardis_core.estimators.softmaxes import Softmaxes

K = 5


def make(name, **settings):
    kind = ESTIMATORS.get(name)
    torch.manual_seed(0)
    return kind(kind.Config(**settings), inputs=2, hidden=3).double()


def randn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def softmax(z):
    exponentials = np.exp(z - z.max())
    return exponentials / exponentials.sum()


def jacobian(p):
    return np.diag(p) - np.outer(p, p)


def numpy_straight_through(pi, noise, spare, tau=1.0):
    return jacobian(softmax(pi / tau)) / tau


def numpy_reinmax(pi, noise, spare, tau=1.0):
    hard = np.eye(K)[np.argmax(pi + noise)]
    return 2 * jacobian((hard + softmax(pi / tau)) / 2) - jacobian(softmax(pi)) / 2


def numpy_gumbel_rao(pi, noise, spare, tau=0.5):
    chosen, Z = np.argmax(pi + noise), np.exp(pi).sum()
    total = jacobian(softmax((pi + noise) / tau))
    for E in spare:
        scores = -np.log(E / np.exp(pi) + E[chosen] / Z)
        scores[chosen] = -np.log(E[chosen]) + np.log(Z)
        total = total + jacobian(softmax(scores / tau))
    return total / tau / (1 + len(spare))


@pytest.mark.parametrize(
    ("name", "settings", "theirs"),
    [
        ("straight-through", {}, {}),
        ("straight-through", {"temperature": 0.4, "forward_temperature": 0.7}, {"tau": 0.4}),
        ("reinmax", {}, {}),
        ("reinmax", {"temperature": 1.3}, {"tau": 1.3}),
        ("gumbel-rao", {"samples": 4}, {}),
        ("gumbel-rao", {"samples": 1, "temperature": 0.8}, {"tau": 0.8}),
    ],
)
def test_the_gradient_is_the_papers(name, settings, theirs):
    estimator, pi, weight = make(name, **settings), 2 * randn(4, K), randn(4, K, seed=1)
    noise, spare = estimator.draw_noise((4, K), pi, torch.Generator().manual_seed(2))
    logits = pi.clone().requires_grad_()
    w = estimator.read_weights(logits, noise, randn(4, 3, seed=3), spare)
    (w * weight).sum().backward()
    rule = globals()[f"numpy_{name.replace('-', '_')}"]
    for b in range(4):
        of_b = [] if spare is None else spare[b].numpy()
        matrix = rule(pi[b].numpy(), noise[b].numpy(), of_b, **theirs)
        np.testing.assert_allclose(logits.grad[b], matrix.T @ weight[b].numpy(), atol=1e-12)


def test_a_learned_temperature_scales_the_logits_without_the_noise():
    estimator = make("straight-through", learned=True)
    pi, h = randn(4, K).requires_grad_(), randn(4, 3, seed=1).requires_grad_()
    noise, weight = randn(4, K, seed=2), randn(4, K, seed=3)
    wanted = [pi, h, estimator.w_tau.weight, estimator.w_tau.bias]
    mine = torch.autograd.grad((estimator.read_weights(pi, noise, h) * weight).sum(), wanted)
    tau = torch.log1p((h @ estimator.w_tau.weight.T + estimator.w_tau.bias).exp()) + 1
    theirs = torch.autograd.grad((torch.softmax(pi * tau, -1) * weight).sum(), wanted)
    for one, other in zip(mine, theirs, strict=True):
        assert other.abs().max() > 1e-3
        torch.testing.assert_close(one, other)


def test_the_forward_temperature_is_that_of_the_samples():
    pi, count = torch.tensor([0.5, -1.0, 2.0]).double(), 20_000
    estimator = make("straight-through", forward_temperature=0.5)
    noise, _ = estimator.draw_noise((count, 3), pi, torch.Generator().manual_seed(0))
    share = estimator.read_weights(pi.expand(count, 3), noise, torch.zeros(count, 3)).mean(0)
    expected = torch.softmax(pi / 0.5, -1)
    assert ((share - expected).abs() < 4 * (expected * (1 - expected) / count).sqrt()).all()


def expected_gradient(estimator, pi, slope_of):
    """The mean over the cells of the estimate, given the gradient of the loss at each."""
    total = torch.zeros_like(pi)
    for cell, p in enumerate(torch.softmax(pi, -1)):
        hard = torch.nn.functional.one_hot(torch.tensor(cell), len(pi)).to(pi.dtype)
        softmaxes = estimator.softmaxes(pi, 1e6 * hard, None, torch.tensor(cell))
        total += p * softmaxes.vjp(slope_of(hard))
    return total


def relative_bias(name, f, **settings):
    """Of the gradient of E f(one-hot sample of softmax(pi)), by enumeration of the cells."""
    pi = randn(K, seed=4).requires_grad_()
    exact = sum(p * f(hard) for p, hard in zip(torch.softmax(pi, -1), torch.eye(K), strict=True))
    (truth,) = torch.autograd.grad(exact, pi)

    def slope_of(hard):
        w = hard.clone().requires_grad_()
        return torch.autograd.grad(f(w), w)[0]

    error = expected_gradient(make(name, **settings), pi.detach(), slope_of) - truth
    return float(error.norm() / truth.norm())


A, B = randn(K, K, seed=5), randn(K, seed=6)


def linear(w):
    return w.to(B.dtype) @ B


def quadratic(w):
    return linear(w) + w.to(B.dtype) @ A @ w.to(B.dtype)


def cubic(w):
    return quadratic(w) + (linear(w) ** 3)


def test_straight_through_is_exact_for_linear_losses_and_reinmax_for_quadratic_ones():
    assert relative_bias("straight-through", linear) < 1e-12
    assert relative_bias("reinmax", linear) < 1e-12
    assert relative_bias("reinmax", quadratic) < 1e-12
    assert relative_bias("straight-through", quadratic) == pytest.approx(0.526, abs=0.001)
    assert relative_bias("reinmax", cubic) > 0.05
    assert relative_bias("straight-through", linear, temperature=0.5) > 0.1


def test_noise_given_the_cell_has_that_argmax_and_is_gumbel_over_all_cells():
    pi, count = randn(K).expand(50_000, K), 50_000
    generator = torch.Generator().manual_seed(0)
    read = (pi + gumbel((count, K), pi, generator)).argmax(-1)
    spare = exponential((count, 1, K), pi, generator)
    odds = odds_given_the_cell(torch.softmax(pi, -1), spare, read).squeeze(-2)
    of_read = pi.logsumexp(-1, keepdim=True) - spare[:, 0].gather(1, read[:, None]).log()
    noisy = of_read + odds.log()
    assert torch.equal(noisy.argmax(-1), read)
    noise = noisy - pi
    torch.testing.assert_close(noise.mean(0), torch.full((K,), 0.5772).double(), atol=0.03, rtol=0)
    torch.testing.assert_close(noise.var(0), torch.full((K,), 1.6449).double(), atol=0.08, rtol=0)


def test_gumbel_rao_has_the_mean_of_gumbel_softmax_and_less_variance():
    count, pi, weight = 20_000, randn(K), randn(K, seed=1)
    estimates = {}
    for samples in (1, 8):
        estimator = make("gumbel-rao", samples=samples)
        logits = pi.repeat(count, 1).requires_grad_()
        noise, spare = estimator.draw_noise((count, K), pi, torch.Generator().manual_seed(samples))
        w = estimator.read_weights(logits, noise, torch.zeros(count, 3), spare)
        (w * w.detach() @ weight).sum().backward()  # a loss that depends on the cell
        estimates[samples] = logits.grad
    one, many = estimates[1], estimates[8]
    error = ((one.var(0) + many.var(0)) / count).sqrt()
    assert ((one.mean(0) - many.mean(0)).abs() < 4 * error).all()
    assert one.mean(0).abs().max() > 10 * error.max()
    assert many.var(0).sum() < 0.7 * one.var(0).sum()


def test_a_cell_with_the_penalty_of_the_last_read_leaves_everything_finite():
    pi = torch.tensor([[0.0, 1.0, -100.0]], requires_grad=True)
    estimator = make("gumbel-rao").float()
    noise, spare = estimator.draw_noise((1, 3), pi.detach(), torch.Generator().manual_seed(0))
    estimator.read_weights(pi, noise, torch.zeros(1, 3), spare)[0, 0].backward()
    assert pi.grad.isfinite().all()


def test_a_learned_temperature_is_that_of_the_logits_without_their_noise():
    estimator = make("straight-through", learned=True)
    assert estimator.learned_temperature() is estimator.w_tau
    assert not estimator.noisy_temperature
    assert make("straight-through").learned_temperature() is None
    pi, noise = randn(40, K), 3 * randn(40, K, seed=1)
    w = estimator.read_weights(pi, noise, randn(40, 3, seed=2))
    assert torch.equal(w.argmax(1), (pi + noise).argmax(1))


def test_softmaxes_of_one_step_and_their_factors_as_a_tensor():
    softmaxes = Softmaxes(torch.softmax(randn(2, 3, 4, K), -1), (2.0, -0.5))  # axes STBK
    step = softmaxes.at(1)
    assert torch.equal(step.p_SBK, softmaxes.p_SBK[:, 1])
    assert step.scale_S == (2.0, -0.5)
    assert softmaxes.scales().tolist() == [2.0, -0.5]
    assert softmaxes.scales().dtype == torch.float64


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("straight-through", "temperature"),
        ("straight-through", "forward_temperature"),
        ("reinmax", "temperature"),
        ("gumbel-rao", "temperature"),
        ("gumbel-rao", "samples"),
        ("soft", "temperature"),
        ("soft", "final_temperature"),
    ],
)
def test_settings_have_bounds(name, setting):
    with pytest.raises(UserError, match=rf"estimator\.{setting} must be .*, not 0"):
        make(name, **{setting: 0})
