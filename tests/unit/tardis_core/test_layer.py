"""TARDIS as a layer: shapes, state, determinism, and learning in somebody else's loop."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tardis_core import Tardis, detach
from tardis_core.errors import UserError
from tardis_core.estimators.base import ESTIMATORS

T, B, D, H = 7, 3, 5, 16


def layer(**settings):
    torch.manual_seed(1)
    return Tardis(D, H, cells=4, address_size=2, content_size=6, **settings)


def inputs(steps=T, seed=2):
    return torch.randn(steps, B, D, generator=torch.Generator().manual_seed(seed))


def test_shapes_are_those_of_nn_lstm_with_the_read_beside_the_hidden_state():
    result = layer()
    output, _ = result(inputs())
    assert output.shape == (T, B, result.output_size) == (T, B, H + 2 + 6)


def test_batch_first_is_the_same_with_axes_swapped():
    x = inputs()
    plain = layer().eval()
    swapped = layer(batch_first=True).eval()
    mask = torch.arange(T)[:, None] < torch.tensor([7, 4, 2])
    expected, _ = plain(x, mask=mask)
    output, _ = swapped(x.transpose(0, 1), mask=mask.T)
    assert torch.equal(output, expected.transpose(0, 1))


def test_a_sequence_in_two_parts_is_the_whole():
    result, x = layer().eval(), inputs()
    whole, _ = result(x)
    first, state = result(x[:4])
    second, _ = result(x[4:], detach(state))
    assert torch.allclose(torch.cat([first, second]), whole, atol=1e-6)


def test_evaluation_repeats_and_training_follows_the_seed():
    result, x = layer(), inputs()

    def run(seed):
        torch.manual_seed(seed)
        return result(x)[0]

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))
    result.eval()
    assert torch.equal(run(1), run(2))


def test_detached_states_end_the_gradient():
    result, x = layer(), inputs().requires_grad_()
    _, state = result(x)
    output, _ = result(inputs(seed=3), detach(state))
    output.sum().backward()
    assert x.grad is None


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
def test_it_learns_in_somebody_elses_loop(estimator):
    """Say at the last step which input was hot at the first one."""
    torch.manual_seed(3)
    result = Tardis(4, 24, cells=4, address_size=2, content_size=8, estimator=estimator)
    head = nn.Linear(result.output_size, 4)
    optimizer = torch.optim.Adam([*result.parameters(), *head.parameters()], 1e-2)
    losses = []
    for _ in range(150):
        label = torch.randint(4, (32,))
        x = torch.zeros(5, 32, 4)
        x[0] = F.one_hot(label, 4)
        output, state = result(x)
        loss = F.cross_entropy(head(output[-1]), label)
        log_likelihood = torch.zeros(5, 32)
        log_likelihood[-1] = -F.cross_entropy(head(output[-1]), label, reduction="none").detach()
        optimizer.zero_grad()
        (loss + result.policy_loss(state, log_likelihood)).backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[0] > 1
    assert sum(losses[-10:]) / 10 < 0.1


def test_the_policy_loss_is_zero_for_gumbel_and_trains_reads_for_reinforce():
    x, ll = inputs(), torch.randn(T, B)
    gumbel = layer()
    assert gumbel.policy_loss(gumbel(x)[1], ll) == 0
    reinforce = layer(estimator="reinforce")
    reinforce.policy_loss(reinforce(x)[1], ll).backward()
    assert reinforce.model.addressing.W_x.weight.grad.abs().sum() > 0


def test_soft_reads_become_sharper_as_the_training_proceeds():
    """At last they are nearly the reads of one cell that evaluation has."""
    result, x = layer(estimator="soft", reset_gates=False), inputs()
    with torch.no_grad():
        hard, _ = layer(estimator="soft", reset_gates=False).eval()(x)
        distances = []
        for progress in (0.0, 0.5, 1.0):
            result.before_batch(progress)
            distances.append(float((result(x)[0] - hard).norm()))
    assert distances[0] > 1.1 * distances[1] > 1.2 * distances[2]


def reinforced(estimator, log_likelihood, mask=None):
    result = layer(estimator=estimator)
    return result.policy_loss(result(inputs())[1], log_likelihood, mask)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layer()(torch.zeros(3, 2, 9)), "x must have three axes, the last one of 5"),
        (lambda: layer(estimator="magic"), "unknown estimator 'magic'"),
        (lambda: Tardis(0, 4), "input_size must be at least 1, not 0"),
        (lambda: Tardis(3, 4, cells=0), "memory.cells must be at least 1, not 0"),
        (
            lambda: reinforced("reinforce", torch.zeros(B, T)),
            r"log_likelihood must have the shape \(7, 3\), as x without its last axis.*\(3, 7\)",
        ),
        (
            lambda: reinforced("reinforce", torch.zeros(T, B), mask=torch.ones(T)),
            r"mask must have the shape \(7, 3\), as x without its last axis, not \(7,\)",
        ),
        (
            lambda: reinforced("rloo", torch.zeros(T, B)),
            "estimator 'rloo' compares 2 runs of each sequence, side by side: x must have a "
            "multiple of 2 sequences, not 3",
        ),
    ],
)
def test_wrong_values_are_answered_with_the_rule(make, message):
    with pytest.raises(UserError, match=message):
        make()


@pytest.mark.parametrize("name", ESTIMATORS.names())
def test_every_estimator_trains_the_layer_or_says_why_not(name):
    if name == "counterfactual":
        with pytest.raises(UserError, match=r"'counterfactual' runs sequences again.*tardis_core"):
            layer(estimator=name)
        return
    result, x = layer(estimator=name), inputs().repeat_interleave(2, dim=1)
    output, state = result(x)
    log_likelihood = -output.square().mean(-1)
    (result.policy_loss(state, log_likelihood) - log_likelihood.mean()).backward()
    assert result.model.addressing.a.grad.any()


@pytest.mark.parametrize("name", ["gumbel", "reinforce", "rloo"])
def test_a_mask_without_any_step_gives_a_policy_loss_of_zero_and_changes_nothing(name):
    result, x = layer(estimator=name), inputs().repeat_interleave(2, dim=1)
    output, state = result(x)
    before = {key: each.clone() for key, each in result.state_dict().items()}
    loss = result.policy_loss(state, torch.randn(T, 2 * B), mask=torch.zeros(T, 2 * B))
    (output.sum() + loss).backward()
    assert loss == 0
    assert all(parameter.grad.isfinite().all() for parameter in result.parameters())
    assert all(torch.equal(each, before[key]) for key, each in result.state_dict().items())


def test_the_policy_loss_without_any_step_can_be_differentiated_alone():
    reinforced("reinforce", torch.randn(T, B), mask=torch.zeros(T, B)).backward()
