"""REINFORCE's gradient is right on average: every path of reads is enumerated, none is sampled."""

import itertools

import pytest
import torch

from tardis_core.training.objective import objective
from tests.support.read_paths import (
    SIGNATURE,
    Paths,
    all_paths,
    assert_same,
    expected_estimate,
    expected_return,
    forced,
    gradient,
    make_batch,
    make_network,
)

SIZES = [(2, 3), (3, 3)]  # (K, T)


@pytest.mark.parametrize(("K", "T"), SIZES)
def test_the_paths_make_up_the_whole_of_the_probability(K, T):
    p_N = all_paths(make_network(K), make_batch(T)).p_N
    assert len(p_N) == K**T
    assert p_N.sum().item() == pytest.approx(1, abs=1e-12)
    assert (p_N > 0.01).sum() >= K  # no path is the only one that counts


@pytest.mark.parametrize(("K", "T"), SIZES)
def test_the_gradient_is_that_of_the_expected_return(K, T):
    network, batch = make_network(K), make_batch(T)
    exact = gradient(network, expected_return(network, batch))
    assert_same(expected_estimate(network, all_paths(network, batch)), exact)


@pytest.mark.parametrize(("K", "T"), SIZES)
def test_the_expected_return_has_no_gradient_that_the_detached_inputs_hide(K, T):
    """By differences: with the reads given, addressing acts on nothing but the odds."""
    network, batch = make_network(K), make_batch(T)
    estimate = expected_estimate(network, all_paths(network, batch))
    parameters = list(network.model.addressing.parameters())
    generator = torch.Generator().manual_seed(5)
    direction = torch.randn(estimate.shape, generator=generator).double()
    start = torch.nn.utils.parameters_to_vector(parameters).detach()
    values = []
    for sign in (1, -1):
        torch.nn.utils.vector_to_parameters(start + sign * 1e-5 * direction, parameters)
        values.append(expected_return(network, batch).item())
    assert (estimate @ direction).item() == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-6)


@pytest.mark.parametrize("gamma", [0.0, 0.6])
def test_discounted_returns_are_on_average_the_discounted_sum_of_the_paper(gamma):
    """sum_t sum_{j >= t} gamma^(j - t) E[R_j grad log p_t]"""
    K, T = 3, 3
    network, batch = make_network(K, **{"estimator.gamma": gamma}), make_batch(T)
    paths = all_paths(network, batch)
    total = 0.0
    for t in range(T):
        for j in range(t, T):
            weight = paths.p_N.detach() * gamma ** (j - t) * paths.reward_TN[j]
            total = total + (weight * paths.log_p_TN[t]).sum()
    assert_same(expected_estimate(network, paths), gradient(network, total))


@pytest.mark.parametrize(("K", "T"), SIZES)
def test_a_constant_baseline_changes_estimates_and_not_their_mean(K, T):
    network, batch = make_network(K, **{"estimator.baseline": "running"}), make_batch(T)
    network.model.estimator.reward_mean.fill_(-1.7)
    paths = all_paths(network, batch)
    exact = gradient(network, expected_return(network, batch))
    assert_same(expected_estimate(network, paths), exact)
    with_it = network.model.estimator.loss(paths.episode(1))[0]
    without = make_network(K).model.estimator.loss(paths.episode(1))[0]
    assert not torch.isclose(with_it, without)


def test_an_input_baseline_does_not_change_the_mean():
    network, batch = make_network(3, **{"estimator.baseline": "input"}), make_batch(3)
    exact = gradient(network, expected_return(network, batch))
    assert_same(expected_estimate(network, all_paths(network, batch)), exact)


def test_the_mean_of_the_others_is_unbiased_over_all_pairs_of_paths():
    K, T = 3, 2
    network = make_network(K, **{"estimator.baseline": "batch"})
    batches = [make_batch(T, seed) for seed in (0, 1)]
    one, other = (all_paths(network, batch) for batch in batches)
    pairs = Paths(*(torch.cat(parts, 1) for parts in zip(one, other, strict=True)))
    count, total = len(one.p_N), 0.0
    for a, b in itertools.product(range(count), repeat=2):
        p = (one.p_N[a] * other.p_N[b]).detach()
        loss, _ = network.model.estimator.loss(pairs.episode(a, count + b))
        total = total - p * 2 * T * loss
    exact = gradient(network, sum(expected_return(network, batch) for batch in batches))
    assert_same(gradient(network, total), exact)


def test_a_baseline_with_ones_own_reward_in_it_would_show_here(monkeypatch):
    """The test above can fail: the plain mean of the batch halves the gradient of a pair."""
    monkeypatch.setattr(
        "tardis_core.estimators.reinforce.mean_of_the_others",
        lambda reward, mask, group: reward.mean(1, keepdim=True).expand_as(reward),
    )
    with pytest.raises(AssertionError):
        test_the_mean_of_the_others_is_unbiased_over_all_pairs_of_paths()


def test_the_objective_hands_the_estimator_what_the_network_did(monkeypatch):
    """The same through the whole of a training step, path by path."""
    K, T = 3, 3
    network, batch = make_network(K), make_batch(T)
    paths = all_paths(network, batch)
    exact = gradient(network, expected_return(network, batch))
    total = torch.zeros_like(exact)
    for n, p in enumerate(paths.p_N.detach()):
        noise = forced(paths.read_TN[:, n : n + 1], K)
        monkeypatch.setattr(network.model, "draw_noise", lambda x, generator, noise=noise: noise)
        result = objective(network, SIGNATURE, batch, None, torch.Generator(), 0.0)
        total -= p * T * gradient(network, result.loss)
    assert_same(total, exact)


def test_attached_every_parameter_gets_the_gradient_of_the_expected_return(monkeypatch):
    """The losses of the task and of the policy together, for states and contents, too."""
    K, T = 3, 3
    network, batch = make_network(K, **{"estimator.attached": True}), make_batch(T)
    paths = all_paths(network, batch)
    total, exact, of_task = 0.0, 0.0, 0.0
    for n, p in enumerate(paths.p_N):
        noise = forced(paths.read_TN[:, n : n + 1], K)
        monkeypatch.setattr(network.model, "draw_noise", lambda x, generator, noise=noise: noise)
        result = objective(network, SIGNATURE, batch, None, torch.Generator(), 0.0)
        total = total + p.detach() * result.loss
        exact = exact + p * result.task_loss
        of_task = of_task + p.detach() * result.task_loss
    parameters = list(network.parameters())
    mine, theirs = (torch.autograd.grad(x, parameters, retain_graph=True) for x in (total, exact))
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    W_x = network.model.controller.W_x.weight
    whole, part = (torch.autograd.grad(x, W_x, retain_graph=True)[0] for x in (exact, of_task))
    assert (whole - part).abs().max() > 1e-3  # the policy has something to say to states
