"""REINFORCE: its figures by hand, and which loss trains which parameters."""

import math

import pytest
import torch
from torch import tensor

from tardis_core.build import build_network
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.estimators.base import Episode
from tardis_core.estimators.policy import discounted_returns, mean_of_the_others
from tardis_core.estimators.reinforce import Reinforce, ReinforceConfig
from tardis_core.tasks.base import Batch, Signature
from tardis_core.training.objective import objective

LN2 = math.log(2)
PLAIN = dict(
    auxiliary=False, gamma=0.0, baseline="none", normalise_variance=False, weight=1.0, entropy=0.0
)


def doubles(values):
    return tensor(values, dtype=torch.float64)


def randn(*shape, generator):
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def make(**settings):
    return Reinforce(ReinforceConfig(**PLAIN | settings), inputs=2, hidden=3).double()


def episode(reward, memory_reward=None, mask=None, pi=None, progress=0.0, x=None):
    """Two cells and, unless said otherwise, even odds; the second cell is always read."""
    reward_TB = doubles(reward)
    T, B = reward_TB.shape
    return Episode(
        pi_TBK=torch.zeros(T, B, 2).double() if pi is None else pi,
        read_TB=torch.ones(T, B, dtype=torch.int64),
        x_TBD=torch.zeros(T, B, 2).double() if x is None else x,
        reward_TB=reward_TB,
        memory_reward_TB=None if memory_reward is None else doubles(memory_reward),
        mask_TB=torch.ones(T, B).double() if mask is None else doubles(mask),
        progress=progress,
    )


def mean_advantage(estimator, result):
    """With even odds the policy loss is ln 2 times the mean advantage."""
    return estimator.loss(result)[0].item() / LN2


def advantages(estimator, reward):
    """What each read is worth: with even odds half of it is the gradient of its logit."""
    pi = torch.zeros(*doubles(reward).shape, 2).double().requires_grad_()
    estimator.loss(episode(reward, pi=pi))[0].backward()
    return (-2 * pi.grad[..., 1] * pi[..., 1].numel()).tolist()


# Returns and baselines


def test_discounted_returns_by_hand():
    reward = tensor([[1.0, 0], [2, 0], [4, 8]])
    returns = discounted_returns(reward, 0.5, torch.ones(3, 2))
    assert returns.tolist() == [[1 + 1 + 1, 2], [2 + 2, 4], [4, 8]]


@pytest.mark.parametrize(("gamma", "expected"), [(0.0, [1, 2, 4]), (1.0, [7, 6, 4])])
def test_discounted_returns_at_the_ends_of_the_range(gamma, expected):
    returns = discounted_returns(tensor([[1.0], [2], [4]]), gamma, torch.ones(3, 1))
    assert returns.flatten().tolist() == expected


def test_padding_discounts_nothing():
    """As in strokes, where padding lies between the pen and the answers."""
    padded, mask = tensor([[1.0], [9], [9], [4]]), tensor([[1.0], [0], [0], [1]])
    returns = discounted_returns(padded, 0.5, mask)
    assert returns[mask > 0].tolist() == [1 + 2, 4]


def test_what_a_read_is_worth_does_not_depend_on_the_padding_of_its_batch():
    """With the whole loss: the same sequence alone and padded between its steps."""
    for settings in ({}, {"normalise_variance": True}):
        alone = episode([[0.0], [3.0], [-1.0]])
        padded = episode(
            [[0.0], [7.0], [7.0], [3.0], [-1.0]], mask=[[1.0], [0.0], [0.0], [1.0], [1.0]]
        )
        worth = [mean_advantage(make(gamma=0.5, **settings), each) for each in (alone, padded)]
        assert worth[0] == pytest.approx(worth[1])
        assert worth[0] == pytest.approx((0 + 1.5 - 0.25 + 3 - 0.5 - 1) / 3)


def test_mean_of_the_others_leaves_ones_own_reward_out():
    reward = tensor([[1.0, 2, 6], [0, 3, 0]])
    result = mean_of_the_others(reward, torch.ones(2, 3), group=3)
    assert result.tolist() == [[4, 3.5, 1.5], [1.5, 0, 1.5]]


def test_mean_of_the_others_counts_only_those_that_have_the_step():
    reward = tensor([[1.0, 2, 6], [5, 77, 9]])
    mask = tensor([[1.0, 1, 1], [1, 0, 1]])
    result = mean_of_the_others(reward, mask, group=3) * mask
    assert result.tolist() == [[4, 3.5, 1.5], [9, 0, 5]]


def test_mean_of_the_others_stays_within_a_group():
    result = mean_of_the_others(tensor([[1.0, 3, 10, 30]]), torch.ones(1, 4), group=2)
    assert result.tolist() == [[3, 1, 30, 10]]


def test_mean_of_no_others_is_zero():
    assert mean_of_the_others(tensor([[3.0]]), torch.ones(1, 1), group=1).tolist() == [[0]]
    alone = mean_of_the_others(tensor([[3.0, 8]]), tensor([[1.0, 0]]), group=2)
    assert alone[0, 0].item() == 0


def test_without_a_baseline_the_advantage_is_the_return():
    result = mean_advantage(make(gamma=0.5), episode([[1.0, 3], [2, 4]]))
    assert result == pytest.approx((2 + 5 + 2 + 4) / 4)


def test_batch_baseline_by_hand():
    # Rewards minus the mean of the others, gamma 0; weighted unevenly by the odds of the read.
    pi = doubles([[[0.0, 1], [0, 0], [0, -1]]])
    log_p = torch.log_softmax(pi, -1)[0, :, 1]
    advantage = doubles([1.0 - 4, 2 - 3.5, 6 - 1.5])
    loss, _ = make(baseline="batch").loss(episode([[1.0, 2, 6]], pi=pi))
    assert loss.item() == pytest.approx(-(advantage * log_p).mean().item(), rel=1e-12)


def test_running_baseline_is_the_mean_of_the_past_and_then_learns():
    estimator = make(baseline="running")
    estimator.reward_mean.fill_(0.5)
    result = mean_advantage(estimator, episode([[1.0, 3], [2, 4]], mask=[[1, 1], [1, 0]]))
    assert result == pytest.approx((0.5 + 2.5 + 1.5) / 3)
    assert estimator.reward_mean.item() == pytest.approx(0.5 + 0.01 * (2 - 0.5))


def test_input_baseline_is_linear_in_the_input_and_fitted_to_the_reward():
    estimator = make(baseline="input")
    with torch.no_grad():
        estimator.input_baseline.weight.copy_(tensor([[2.0, -1.0]]))
        estimator.input_baseline.bias.fill_(0.25)
    x = doubles([[[1.0, 0.5], [0.0, 2.0]]])  # baselines 1.75 and -1.75
    loss, _ = estimator.loss(episode([[1.0, 3.0]], x=x))
    errors = [1 - 1.75, 3 + 1.75]
    assert loss.item() == pytest.approx(
        LN2 * sum(errors) / 2 + sum(e**2 for e in errors) / 2, rel=1e-12
    )
    loss.backward()
    # Of the fit alone: the advantage takes the baseline as given.
    expected = [-2 * (errors[0] * 1 + 0) / 2, -2 * (errors[0] * 0.5 + errors[1] * 2) / 2]
    assert estimator.input_baseline.weight.grad[0].tolist() == pytest.approx(expected, rel=1e-12)


def test_steps_that_do_not_exist_are_in_no_mean():
    estimator = make(baseline="input")
    reward, mask = [[1.0, 50.0], [3.0, 50.0]], [[1.0, 0.0], [1.0, 0.0]]
    for part, value in (("weight", 0.0), ("bias", 2.0)):
        getattr(estimator.input_baseline, part).data.fill_(value)
    loss, metrics = estimator.loss(episode(reward, mask=mask))
    assert metrics["reward"].item() == pytest.approx((1 + 3) / 2)
    alone, _ = estimator.loss(episode([[1.0], [3.0]]))
    assert loss.item() == pytest.approx(alone.item())


def test_baselines_other_than_the_input_have_no_parameters():
    for baseline in ("batch", "running", "none"):
        assert list(make(baseline=baseline).parameters()) == []


# The reward


@pytest.mark.parametrize(
    ("auxiliary", "share", "expected"),
    [(False, 1.0, 2.0), (True, 1.0, 10.0), (True, 0.25, 0.25 * 10 + 0.75 * 2)],
)
def test_the_reward_is_the_models_the_memory_heads_or_a_mix(auxiliary, share, expected):
    estimator = make(auxiliary=auxiliary, auxiliary_share=share)
    result = episode([[2.0]], memory_reward=[[10.0]])
    assert mean_advantage(estimator, result) == pytest.approx(expected)
    assert estimator.loss(result)[1]["reward"].item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "refused", "accepted"),
    [
        ("auxiliary_share", (-0.1, 1.1), (0, 1)),
        ("auxiliary_until", (-0.1, 1.1), (0, 1)),
        ("gamma", (-0.1, 1.1), (0, 1)),
        ("rate", (0, -1), (0.1,)),
        ("entropy_until", (0, 1.1), (0.1, 1)),
        ("weight", (-0.1,), (0,)),
        ("entropy", (-0.1,), (0,)),
    ],
)
def test_settings_have_bounds(name, refused, accepted):
    for value in refused:
        with pytest.raises(UserError, match=rf"estimator\.{name} must .*{value}"):
            ReinforceConfig(**{name: value})
    for value in accepted:
        assert getattr(ReinforceConfig(**{name: value}), name) == value


def test_the_memory_head_is_asked_for_with_the_auxiliary_cost_only():
    assert make(auxiliary=True).memory_head
    assert not make(auxiliary=False).memory_head


# The loss


def test_policy_loss_by_hand():
    pi = doubles([[[0.0, LN2]], [[0.0, -LN2]]]).requires_grad_()  # p(second) 2/3, 1/3
    loss, _ = make(gamma=0.5, weight=3.0).loss(episode([[1.0], [4.0]], pi=pi))
    expected = -(3 * math.log(2 / 3) + 4 * math.log(1 / 3)) / 2
    assert loss.item() == pytest.approx(3 * expected, rel=1e-12)
    loss.backward()
    # d -A log p(second) / d pi = A (p - [second]); a high return makes the read more likely
    assert pi.grad[0, 0].tolist() == pytest.approx([3 / 2 * 3 / 3, -3 / 2 * 3 / 3])
    assert pi.grad[1, 0].tolist() == pytest.approx([3 / 2 * 4 * 2 / 3, -3 / 2 * 4 * 2 / 3])


@pytest.mark.parametrize("baseline", ["none", "batch", "running", "input"])
@pytest.mark.parametrize("exists", [[1, 0, 0], [0, 0, 1]], ids=["after", "before"])
def test_steps_outside_the_mask_count_for_nothing(baseline, exists):
    generator = torch.Generator().manual_seed(0)
    pi, reward = randn(3, 2, 2, generator=generator), randn(3, 2, generator=generator)
    mask = torch.ones(3, 2)
    mask[:, 1] = tensor(exists)
    result = []
    for junk in (0.0, 50.0):
        logits, rewards = pi.clone(), reward.clone()
        logits[mask == 0] += doubles([junk, -junk])
        rewards[mask == 0] += junk
        torch.manual_seed(0)  # of the input baseline
        estimator = make(baseline=baseline, gamma=0.9, entropy=0.3, normalise_variance=True)
        estimator.return_variance.fill_(2.0)
        loss, figures = estimator.loss(episode(rewards.tolist(), mask=mask.tolist(), pi=logits))
        statistics = (estimator.reward_mean, estimator.return_variance)
        result.append([each.item() for each in (loss, *figures.values(), *statistics)])
    assert result[0] == pytest.approx(result[1], rel=1e-12)


@pytest.mark.parametrize(("variance", "divisor"), [(4.0, 2.0), (0.25, 1.0), (9.0, 3.0)])
def test_variance_normalisation_scales_great_signals_down_and_leaves_small_ones(variance, divisor):
    estimator = make(normalise_variance=True)
    estimator.return_variance.fill_(variance)
    result = mean_advantage(estimator, episode([[3.0], [5.0]]))
    assert result == pytest.approx(4.0 / divisor)
    # its own returns are learned for the next time
    assert estimator.return_variance.item() == pytest.approx(
        variance + 0.01 * ((9 + 25) / 2 - variance)
    )


def test_the_variance_is_learned_from_the_steps_that_exist():
    estimator = make(gamma=0.5, normalise_variance=True)
    estimator.loss(episode([[0.0], [4.0]], mask=[[0], [1]]))  # returns 2 (of no step) and 4
    assert estimator.return_variance.item() == pytest.approx(1 + 0.01 * (16 - 1))


def test_without_variance_normalisation_nothing_is_divided_or_learned():
    estimator = make(normalise_variance=False)
    estimator.return_variance.fill_(4.0)
    assert mean_advantage(estimator, episode([[3.0], [5.0]])) == pytest.approx(4.0)
    assert estimator.return_variance.item() == 4.0


def test_the_entropy_bonus_falls_to_zero():
    estimator = make(weight=2.0, entropy=0.3, entropy_until=0.5)
    for progress, bonus in ((0.0, 0.3), (0.25, 0.15), (0.5, 0.0), (0.9, 0.0)):
        loss, figures = estimator.loss(episode([[0.0], [0.0]], progress=progress))
        assert loss.item() == pytest.approx(-2.0 * bonus * LN2, abs=1e-12)
        assert figures["read_entropy"].item() == pytest.approx(LN2)


def test_the_entropy_bonus_makes_reads_less_decided():
    pi = doubles([[[0.0, 1.0]]]).requires_grad_()
    make(entropy=0.3).loss(episode([[0.0]], pi=pi))[0].backward()
    assert pi.grad[0, 0, 1] > 0  # descent lowers the greater logit
    assert pi.grad[0, 0, 0] < 0


@pytest.mark.parametrize(("progress", "share"), [(0.0, 1.0), (0.25, 0.65), (0.5, 0.3), (0.9, 0.3)])
def test_the_share_of_the_auxiliary_reward_falls_from_one(progress, share):
    estimator = make(auxiliary=True, auxiliary_share=0.3, auxiliary_until=0.5)
    result = episode([[-1.0]], memory_reward=[[-2.0]], progress=progress)
    assert mean_advantage(estimator, result) == pytest.approx(-2 * share - (1 - share))


# Which loss trains which parameters

SIGNATURE = Signature(inputs=5, symbols=True, outputs=4, bits=False)


def make_network(estimator, **settings):
    config = make_config(
        "copy",
        "tardis",
        estimator,
        "smoke",
        overrides={
            "model.hidden": 8,
            "model.embedding": 3,
            "model.layer_norm": True,
            "memory.cells": 3,
            "memory.content": 3,
            **settings,
        },
    )
    return build_network(config, SIGNATURE).double()


def make_batch(T=8, B=3):
    generator = torch.Generator().manual_seed(0)
    return Batch(
        torch.randint(5, (T, B), generator=generator),
        torch.randint(4, (T, B), generator=generator),
        torch.ones(T, B, dtype=torch.bool),
        torch.arange(T).unsqueeze(1) < tensor([T, 5, 6]),
    )


def losses_of(network, batch):
    """The task's, the policy's and the memory head's loss, each for itself."""
    prediction, _ = network(batch.inputs, None, batch.mask_TB, torch.Generator().manual_seed(1))
    ll_TB = SIGNATURE.log_likelihood(prediction.logits_TBO, batch)
    result = {"task": SIGNATURE.loss(ll_TB, batch)}
    memory_ll_TB = None
    if prediction.memory_logits_TBO is not None:
        memory_ll_TB = SIGNATURE.log_likelihood(prediction.memory_logits_TBO, batch)
        result["memory"] = SIGNATURE.loss(memory_ll_TB, batch)
    reads = prediction.hidden.reads
    result["policy"], _ = network.model.estimator.loss(
        Episode(
            pi_TBK=reads.pi_TBK,
            read_TB=reads.read_TB,
            x_TBD=prediction.x_TBD.detach(),
            reward_TB=ll_TB.detach(),
            memory_reward_TB=None if memory_ll_TB is None else memory_ll_TB.detach(),
            mask_TB=batch.mask_TB.double(),
            progress=0.0,
        )
    )
    return result


def trained_by(network, loss):
    """The names of the parameters that the loss has a gradient for, and not zero everywhere."""
    network.zero_grad()
    loss.backward(retain_graph=True)
    return {
        name
        for name, parameter in network.named_parameters()
        if parameter.grad is not None and parameter.grad.any()
    }


def names(network, *prefixes):
    return {name for name, _ in network.named_parameters() if name.startswith(prefixes)}


def test_under_reinforce_each_loss_trains_its_own_parameters():
    network = make_network("reinforce")
    losses = losses_of(network, make_batch())
    task = names(network, "encoder.", "model.controller.", "model.W_m.", "head.")
    addressing, memory = names(network, "model.addressing."), names(network, "memory_head.")
    assert task | addressing | memory == names(network, "")
    assert len(addressing) == 6
    assert trained_by(network, losses["task"]) == task
    assert trained_by(network, losses["policy"]) == addressing
    assert trained_by(network, losses["memory"]) == memory


def test_the_input_baseline_is_trained_by_the_policy_loss():
    network = make_network("reinforce", **{"estimator.baseline": "input"})
    losses = losses_of(network, make_batch())
    baseline = names(network, "model.estimator.")
    assert len(baseline) == 2
    policy = trained_by(network, losses["policy"])
    assert policy == baseline | names(network, "model.addressing.")
    assert not trained_by(network, losses["task"]) & baseline


def test_attached_the_policy_loss_trains_also_what_the_logits_are_made_of():
    network = make_network("reinforce", **{"estimator.attached": True})
    losses = losses_of(network, make_batch())
    seen = names(network, "encoder.", "model.controller.", "model.W_m.", "model.addressing.")
    assert trained_by(network, losses["policy"]) == seen
    assert trained_by(network, losses["memory"]) == names(network, "memory_head.")


def test_attached_the_auxiliary_cost_trains_what_the_memory_holds():
    network = make_network("reinforce", **{"estimator.auxiliary_attached": True})
    losses = losses_of(network, make_batch())
    made_of = names(network, "encoder.", "model.controller.", "model.W_m.", "memory_head.")
    assert trained_by(network, losses["memory"]) == made_of
    assert trained_by(network, losses["policy"]) == names(network, "model.addressing.")


def test_without_the_auxiliary_cost_there_is_no_memory_head():
    network = make_network("reinforce", **{"estimator.auxiliary": False})
    losses = losses_of(network, make_batch())
    assert "memory" not in losses
    assert trained_by(network, losses["policy"]) == names(network, "model.addressing.")


def test_under_gumbel_the_task_trains_everything():
    network = make_network("gumbel")
    losses = losses_of(network, make_batch())
    assert losses["policy"] is None
    assert "model.estimator.w_tau.weight" in names(network, "")
    assert trained_by(network, losses["task"]) == names(network, "")


@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
def test_the_objective_is_the_sum_of_the_losses(estimator):
    network, batch = make_network(estimator), make_batch()
    parts = losses_of(make_network(estimator), batch)
    result = objective(network, SIGNATURE, batch, None, torch.Generator().manual_seed(1), 0.0)
    total = sum(part for part in parts.values() if part is not None)
    assert result.loss.item() == pytest.approx(total.item(), rel=1e-12)
    assert result.task_loss.item() == pytest.approx(parts["task"].item(), rel=1e-12)


def test_the_weight_scales_the_policy_gradient_and_no_other():
    gradients = {}
    for weight in (0.1, 0.3):
        network = make_network("reinforce", **{"estimator.weight": weight})
        generator = torch.Generator().manual_seed(1)
        objective(network, SIGNATURE, make_batch(), None, generator, 0.0).loss.backward()
        gradients[weight] = {name: p.grad for name, p in network.named_parameters()}
    for name, gradient in gradients[0.1].items():
        factor = 3 if name.startswith("model.addressing.") else 1
        torch.testing.assert_close(gradients[0.3][name], factor * gradient, rtol=1e-9, atol=1e-12)


# Writes that are chosen


def test_a_chosen_write_is_learned_like_a_chosen_read():
    """The likelihood of both choices is a product: its logarithm, and the entropy, are sums."""
    pi, write_pi = (torch.zeros(1, 1, 2).double().requires_grad_() for _ in range(2))
    result = episode([[3.0]], pi=pi)._replace(
        write_pi_TBK=write_pi, written_TB=torch.zeros(1, 1, dtype=torch.int64)
    )
    loss, figures = make().loss(result)
    assert loss.item() == pytest.approx(2 * 3.0 * LN2)
    assert figures["read_entropy"].item() == pytest.approx(2 * LN2)
    loss.backward()
    assert pi.grad.flatten().tolist() == pytest.approx([1.5, -1.5])  # cell 1 was read
    assert write_pi.grad.flatten().tolist() == pytest.approx([-1.5, 1.5])  # cell 0 was written
