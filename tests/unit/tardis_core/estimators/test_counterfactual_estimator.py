"""What is learned from cells that were tried: values by hand, unbiased by enumeration."""

import math

import pytest
import torch
from torch import tensor

from tardis_core.errors import UserError
from tardis_core.estimators.base import Episode, Tried
from tardis_core.estimators.counterfactual import Counterfactual, CounterfactualConfig
from tardis_core.estimators.counterfactual import expected_return as expected_value
from tests.support.read_paths import (
    all_paths,
    assert_same,
    expected_return,
    gradient,
    make_batch,
    make_network,
)

PLAIN = dict(auxiliary=False, gamma=0.5, weight=1.0, entropy=0.0)


def doubles(values):
    return tensor(values, dtype=torch.float64)


def make(**settings):
    return Counterfactual(CounterfactualConfig(**PLAIN | settings), inputs=2, hidden=3).double()


def episode(T, B, pi, tried, mask=None, memory_reward=None):
    zeros = torch.zeros(T, B).double()
    mask_TB = torch.ones(T, B).double() if mask is None else doubles(mask)
    read_TB, x_TBD = torch.ones(T, B, dtype=torch.int64), torch.zeros(T, B, 2)
    return Episode(
        pi, read_TB, x_TBD, zeros, memory_reward, mask_TB, progress=0.0, tried=Tried(*tried)
    )


def all_cells(B, K=2):
    return torch.arange(K).expand(B, K)


def test_tried_cells_are_not_discounted_by_padding():
    def slope(reward_W, mask_T):
        T, W = len(mask_T), len(reward_W)
        pi = torch.zeros(T, 1, 2).double().requires_grad_()
        reward_WBN = doubles(reward_W).view(W, 1, 1) * doubles([0.0, 1.0])
        tried = (tensor([T - W]), all_cells(1), reward_WBN, None)
        make().loss(episode(T, 1, pi, tried, [[each] for each in mask_T]))[0].backward()
        # The loss is a mean over the steps; a read stands for the last W.
        return pi.grad[T - W] * sum(mask_T) / W

    alone, padded = slope([0.0, 4.0], [1.0, 1.0]), slope([0.0, 0.0, 4.0], [1.0, 0.0, 1.0])
    torch.testing.assert_close(alone, padded)
    assert alone.abs().sum() > 0


def test_cells_are_tried_at_a_step_of_the_last_ones_of_a_longer_sequence():
    T, W = 5, 2
    pi = torch.zeros(T, 2, 2).double().requires_grad_()
    reward_WBN = doubles([[[0.0, 1.0]] * 2, [[0.0, 4.0]] * 2])
    tried = (tensor([3, 4]), all_cells(2), reward_WBN, None)
    make().loss(episode(T, 2, pi, tried))[0].backward()
    # p (1 - p) times the gain of the second cell, W times, over the mean of ten steps.
    expected = torch.zeros(T, 2).double()
    expected[3, 0], expected[4, 1] = (1 + 0.5 * 4) / 4, 4 / 4
    torch.testing.assert_close(-pi.grad[..., 1], expected * W / 10)


def test_the_likeliest_are_summed_and_one_of_the_rest_stands_for_them():
    p = torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.2, 0.1, 0.1, 0.6]]).double()
    cell_BN, return_BN = tensor([[1, 3, 0], [3, 0, 2]]), doubles([[5.0, 1.0, 9.0], [2.0, 4.0, 7.0]])
    tried = Tried(tensor([0, 0]), cell_BN, return_BN[None], None)
    pi = p.log().requires_grad_()
    value_B = expected_value(pi, tried, return_BN)
    # The mean of those that are summed is subtracted; the others have the rest of the mass.
    by_hand = [
        0.4 * 2 + 0.3 * -2 + 0.3 * math.log(0.1) * 6,
        0.6 * -1 + 0.2 * 1 + 0.2 * math.log(0.1) * 4,
    ]
    assert value_B.tolist() == pytest.approx(by_hand)
    value_B[0].backward()
    # d p_k = p_k ([k = i] - p_i); d log p_z = [z = i] - p_i
    sure = 0.4 * 2 + 0.3 * -2
    gain, drawn = doubles([0.0, 2.0, 0.0, -2.0]), doubles([1.0, 0.0, 0.0, 0.0])
    expected = p[0] * (gain - sure) + 0.3 * 6 * (drawn - p[0])
    torch.testing.assert_close(pi.grad[0], expected)


def test_a_step_that_does_not_exist_teaches_nothing():
    pi = torch.zeros(2, 2, 2).double().requires_grad_()
    tried = (tensor([1, 1]), all_cells(2), doubles([[[0.0, 3.0]] * 2] * 2), None)
    loss, _ = make().loss(episode(2, 2, pi, tried, mask=[[1.0, 1.0], [1.0, 0.0]]))
    loss.backward()
    assert loss.isfinite()
    assert pi.grad[1, 0].any()
    assert not pi.grad[1, 1].any()


@pytest.mark.parametrize(
    ("auxiliary", "share", "expected"),
    [(False, 1.0, 2.0), (True, 1.0, 10.0), (True, 0.25, 0.25 * 10 + 0.75 * 2)],
)
def test_tried_cells_have_the_mix_of_rewards(auxiliary, share, expected):
    pi = torch.zeros(1, 1, 2).double().requires_grad_()
    reward, memory_reward = (doubles([[[0.0, each]]]) for each in (2.0, 10.0))
    tried = (tensor([0]), all_cells(1), reward, memory_reward)
    result = episode(1, 1, pi, tried, memory_reward=doubles([[7.0]]))
    make(auxiliary=auxiliary, auxiliary_share=share).loss(result)[0].backward()
    # With even odds p (1 - p) = 1/4 times the advantage of the second cell over the first.
    assert -4 * pi.grad[0, 0, 1].item() == pytest.approx(expected)


def test_tried_cells_are_judged_by_their_differences_and_by_the_masks_of_their_sequences():
    def loss(constant):
        # Three sequences of two steps; the last step exists in the first sequence alone.
        reward_WBN = doubles([[[1.0, 2.0]] * 3, [[0.0, 4.0]] * 3]) + constant
        tried = (tensor([0, 0, 0]), all_cells(3), reward_WBN, None)
        return make().loss(episode(2, 3, pi, tried, [[1.0] * 3, [1.0, 0.0, 0.0]]))[0]

    pi = doubles([0.0, math.log(3)]).expand(2, 3, 2).contiguous()  # odds of 1/4 and 3/4
    gains = (1 + 0.5 * 4, 1, 1)  # of the second cell over the first
    expected = -2 * sum(gain * (3 / 4 - 1 / 2) for gain in gains) / 4  # W = 2, four steps
    assert loss(0.0).item() == pytest.approx(expected)
    assert loss(7.0).item() == pytest.approx(expected)


@pytest.mark.parametrize(("name", "least"), [("window", 1), ("likeliest", 0)])
def test_settings_have_bounds(name, least):
    with pytest.raises(UserError, match=rf"estimator\.{name} must .*{least - 1}"):
        CounterfactualConfig(**{name: least - 1})
    assert getattr(CounterfactualConfig(**{name: least}), name) == least


@pytest.mark.parametrize(("likeliest", "count"), [(0, 5), (1, 2), (3, 4), (4, 5), (9, 5)])
def test_the_likeliest_cells_and_one_of_the_others_are_tried(likeliest, count):
    generator = torch.Generator().manual_seed(0)
    pi = torch.randn(1, 5, generator=generator).double().expand(4000, 5)
    cells = make(likeliest=likeliest).cells_to_try(pi, generator)
    assert cells.shape == (4000, count)
    if count == 5:
        assert torch.equal(cells[0], torch.arange(5))
        return
    order = pi[0].argsort(descending=True)
    assert torch.equal(cells[:, :-1], order[:likeliest].expand(4000, likeliest))
    share = torch.bincount(cells[:, -1], minlength=5) / 4000
    expected = torch.softmax(pi[0], -1)
    expected[order[:likeliest]] = 0
    expected /= expected.sum()
    assert ((share - expected).abs() <= 4 * (expected * (1 - expected) / 4000).sqrt()).all()


def returns_if(paths, n, t, K):
    """reward_WBN of each cell at step t of path n: the mean over all that may follow."""
    T = len(paths.read_TN)
    reward = torch.zeros(T, 1, K).double()
    before = (paths.read_TN[:t] == paths.read_TN[:t, n : n + 1]).all(0)
    for cell in range(K):
        there = before & (paths.read_TN[t] == cell)
        p_N = paths.p_N.detach() * there
        reward[t:, 0, cell] = (paths.reward_TN[t:] * p_N).sum(1) / p_N.sum()
    return reward


@pytest.mark.parametrize("likeliest", [0, 1])
def test_it_is_unbiased_over_all_paths_all_steps_and_all_draws(likeliest):
    K, T = 3, 3
    settings = {"estimator.window": T, "estimator.likeliest": likeliest}
    network, batch = make_network(K, "counterfactual", **settings), make_batch(T)
    paths, total = all_paths(network, batch), 0.0
    for n, p_path in enumerate(paths.p_N.detach()):
        for t in range(T):
            reward, p_K = returns_if(paths, n, t, K), torch.softmax(paths.pi_TNK[t, n], -1).detach()
            first = p_K.argmax()
            draws = [([*range(K)], 1.0)]
            if likeliest:
                others = [cell for cell in range(K) if cell != first]
                mass = p_K[others].sum()
                draws = [([int(first), cell], p_K[cell] / mass) for cell in others]
            for cells, p_draw in draws:
                tried = Tried(tensor([t]), tensor([cells]), reward[..., cells], None)
                result = paths.episode(n)._replace(tried=tried)
                # The estimate of one step, drawn with 1 / T; the loss is a mean over T steps.
                total = total - p_path * p_draw * network.model.estimator.loss(result)[0]
    assert_same(gradient(network, total), gradient(network, expected_return(network, batch)))
