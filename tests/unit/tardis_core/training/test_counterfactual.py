"""Trying cells at one step: what is tried, what follows, and what is learned from it."""

import pytest
import torch

from tardis_core.build import build_network
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.models.network import steps_asked
from tardis_core.models.tardis import TardisNoise
from tardis_core.tasks.base import Batch, Signature
from tardis_core.training.counterfactual import try_cells
from tardis_core.training.objective import objective

K, T, B, W = 3, 6, 5, 4
SIGNATURE = Signature(inputs=2, symbols=False, outputs=3, bits=False)
SIZES = {
    "model.hidden": 3,
    "model.reset_gates": True,
    "model.recurrent_dropout": 0.3,
    "model.dropout": 0.4,
    "memory.cells": K,
    "memory.address": 2,
    "memory.content": 2,
}


def make_network(estimator="counterfactual", **settings):
    """Small, with large weights, so that every read matters."""
    if estimator == "counterfactual":
        settings = {"estimator.window": W} | settings
    config = make_config("copy", "tardis", estimator, "smoke", overrides=SIZES | settings)
    network = build_network(config, SIGNATURE).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator).double())
    return network


def make_batch(masked=False):
    generator = torch.Generator().manual_seed(0)
    there_TB = torch.ones(T, B, dtype=torch.bool)
    if masked:
        there_TB[T - 2 :, 1] = False
    return Batch(
        torch.randn(T, B, 2, generator=generator).double(),
        torch.randint(3, (T, B), generator=generator),
        there_TB & (torch.arange(T) % 2 == 1).unsqueeze(1),
        there_TB if masked else None,
    )


def run(network, batch, state=None, seed=0):
    """A sequence with noise, and cells tried at one of its last steps."""
    generator, estimator = torch.Generator().manual_seed(seed), network.model.estimator
    prediction, _ = network(batch.inputs, state, batch.mask_TB, generator, batch.scored_TB)
    result = try_cells(network, SIGNATURE, batch, state, prediction, estimator, generator)
    return prediction, result


def rewards(prediction, batch):
    """What the two heads said of what happened."""
    return [
        SIGNATURE.log_likelihood(logits, batch)
        for logits in (prediction.logits_TBO, prediction.memory_logits_TBO)
    ]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("last", [1, W, T, T + 3])
def test_the_cell_that_was_read_has_what_happened(masked, carried, last):
    network, batch = make_network(**{"estimator.window": last}), make_batch(masked)
    state = network(batch.inputs)[1] if carried else None
    prediction, result = run(network, batch, state)
    window = min(last, T)
    read_B = prediction.hidden.reads.read_TB[result.step_B, torch.arange(B)]
    index_WB1 = read_B.expand(window, B).unsqueeze(-1)
    for tried_WBK, happened_TB in zip(result[2:], rewards(prediction, batch), strict=True):
        chosen_WB = tried_WBK.gather(-1, index_WB1).squeeze(-1)
        torch.testing.assert_close(chosen_WB, happened_TB[T - window :])


@pytest.mark.parametrize("likeliest", [0, 1])
def test_another_cell_has_what_a_run_with_that_read_has(likeliest):
    network, batch = make_network(**{"estimator.likeliest": likeliest}), make_batch()
    prediction, result = run(network, batch)
    assert result.cell_BN.shape == (B, likeliest + 1 if likeliest else K)
    for number, cell_B in enumerate(result.cell_BN.unbind(1)):
        noise = prediction.noise.reading(result.step_B, cell_B)
        hidden, _ = network.model(prediction.x_TBD, noise=noise)
        read_B = hidden.reads.read_TB[result.step_B, torch.arange(B)]
        assert torch.equal(read_B, cell_B)
        logits_TBO, _ = network.predict(
            hidden, prediction.x_TBD, steps_asked(batch.scored_TB), prediction.dropout_NG
        )
        expected_TB = SIGNATURE.log_likelihood(logits_TBO, batch)
        torch.testing.assert_close(result.reward_WBN[..., number], expected_TB[T - W :])
    spread = result.reward_WBN.max(-1).values - result.reward_WBN.min(-1).values
    assert spread.max() > 0.1  # it matters which


def test_all_of_the_last_steps_and_no_others_are_tried():
    network, batch = make_network(), make_batch()
    steps = {int(step) for seed in range(20) for step in run(network, batch, seed=seed)[1].step_B}
    assert steps == set(range(T - W, T))


def copies_of_one(count, length):
    one = make_batch()
    wide = [part[:length, :1].repeat_interleave(count, 1) for part in one[:2]]
    return Batch(*wide, torch.ones(length, count, dtype=torch.bool))


def gradients(network, count, length, seed):
    """Of the addressing parameters, by many runs of one sequence at once."""
    generator = torch.Generator().manual_seed(seed)
    batch = copies_of_one(count, length)
    result = objective(network, SIGNATURE, batch, None, generator, 0.0)
    parameters = list(network.model.addressing.parameters())
    parts = torch.autograd.grad(result.loss - result.task_loss.detach(), parameters)
    return torch.cat([part.flatten() for part in parts])


PLAIN = {
    "model.reset_gates": False,
    "model.recurrent_dropout": 0.0,
    "model.dropout": 0.0,
    "estimator.auxiliary": False,
    "estimator.gamma": 0.7,
    "estimator.entropy": 0.0,
    "estimator.weight": 1.0,
}
SAMPLED = {"estimator.normalise_variance": False}


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_on_average_it_is_the_gradient_of_reinforce_with_less_noise(dropout):
    length, count, rounds = 3, 500, 40
    settings = {**PLAIN, "model.dropout": dropout}
    networks = (
        make_network(**settings, **{"estimator.window": length}),
        make_network("reinforce", **settings, **SAMPLED),
    )
    tried, read = (
        torch.stack([gradients(network, count, length, seed) for seed in range(rounds)])
        for network in networks
    )
    error = (tried.var(0) / rounds + read.var(0) / rounds).sqrt()
    assert ((tried.mean(0) - read.mean(0)).abs() <= 4 * error + 1e-12).all()
    assert tried.mean(0).abs().max() > 10 * error.max()  # there is something to get wrong
    if not dropout:  # its own noise is in both
        assert tried.var(0).sum() < 0.8 * read.var(0).sum()


def test_a_sequence_that_has_no_step_there_learns_nothing_from_it():
    network = make_network(**PLAIN, **{"estimator.window": 1})
    batch = make_batch(masked=True)
    generator = torch.Generator().manual_seed(0)
    result = objective(network, SIGNATURE, batch, None, generator, 0.0)
    pi_TBK = result.hidden.reads.pi_TBK
    (gradient_TBK,) = torch.autograd.grad(result.loss - result.task_loss.detach(), pi_TBK)
    touched_TB = gradient_TBK.abs().sum(-1) > 0
    assert touched_TB[-1].tolist() == [True, False, True, True, True]
    assert not touched_TB[:-1].any()


def test_a_model_that_chooses_more_than_reads_is_refused():
    config = make_config("copy", "dntm-discrete", "counterfactual", "smoke")
    with pytest.raises(UserError, match=r"'dntm-discrete' chooses more than reads.*: tardis"):
        build_network(config, SIGNATURE)


def test_noise_that_leaves_no_choice_is_a_copy():
    noise = TardisNoise(torch.zeros(2, 1, K), None, None)
    noise.reading(torch.tensor([1]), torch.tensor([2]))
    assert (noise.read_TBK == 0).all()
