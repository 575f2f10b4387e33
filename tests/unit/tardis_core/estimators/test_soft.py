"""Soft reads: 1.5-entmax against a bisection, the temperature's fall, and hard evaluation."""

import numpy as np
import pytest
import torch

from tardis_core.build import load_data
from tardis_core.config import make_config
from tardis_core.estimators.entmax import entmax15
from tardis_core.estimators.soft import Soft, SoftConfig
from tardis_core.training.loop import Trainer


def randn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def by_bisection(z):
    """The threshold found by halving: p = max(0, z / 2 - tau)^2 adds up to one."""
    low, high = z.max() / 2 - 1, z.max() / 2
    for _ in range(100):
        tau = (low + high) / 2
        total = (np.maximum(0, z / 2 - tau) ** 2).sum()
        low, high = (tau, high) if total > 1 else (low, tau)
    return np.maximum(0, z / 2 - tau) ** 2


@pytest.mark.parametrize("scale", [0.01, 1.0, 3.0, 100.0])
def test_entmax_is_that_of_a_bisection(scale):
    z = scale * randn(50, 7) + 3
    p = entmax15(z)
    for row, expected in zip(p, z.numpy(), strict=True):
        np.testing.assert_allclose(row, by_bisection(expected), atol=1e-9)
    torch.testing.assert_close(p.sum(-1), torch.ones(50).double())
    assert (p == 0).any() == (scale >= 1)


def test_the_gradient_of_entmax_is_that_of_differences():
    assert torch.autograd.gradcheck(entmax15, randn(20, 6, seed=1).requires_grad_(), eps=1e-7)


def test_entmax_is_over_the_last_of_any_number_of_axes():
    z, weight = randn(2, 3, 4), randn(2, 3, 4, seed=1)

    def both(z, weight):
        z = z.clone().requires_grad_()
        p = entmax15(z)
        return p.detach(), torch.autograd.grad((p * weight).sum(), z)[0]

    for whole, rows in zip(both(z, weight), both(z.view(6, 4), weight.view(6, 4)), strict=True):
        torch.testing.assert_close(whole.view(6, 4), rows)


def test_ties_and_a_single_cell_have_their_values():
    assert entmax15(torch.zeros(1, 4).double()).tolist() == [[0.25] * 4]
    assert entmax15(torch.tensor([[3.0]])).tolist() == [[1.0]]


@pytest.mark.parametrize("function", ["softmax", "entmax"])
def test_reads_are_mixtures_in_training_that_end_near_one_cell(function):
    estimator = Soft(SoftConfig(function, temperature=2.0, final_temperature=0.01), 2, 3)
    pi, noise, largest = randn(30, 5), randn(30, 5, seed=1), []
    for progress, temperature in ((0.0, 2.0), (0.5, (2 * 0.01) ** 0.5), (1.0, 0.01)):
        estimator.before_batch(progress)
        w = estimator.read_weights(pi, noise, None)
        expected = torch.softmax if function == "softmax" else lambda z, _: entmax15(z)
        torch.testing.assert_close(w, expected(pi / temperature, -1))
        largest.append(float(w.max(-1).values.mean()))
    assert largest[0] < 0.7 < 0.98 < largest[2]
    assert set(estimator.read_weights(pi, None, None).unique().tolist()) == {0.0, 1.0}


def test_a_training_anneals_and_counts_reads_as_those_of_one_cell():
    config = make_config("copy", estimator="soft", scale="smoke")
    trainer = Trainer(config, load_data(config))
    assert trainer.backend == "reference"
    trainer.update = config.training.updates // 2
    trainer.step()
    model = trainer.network.model
    assert model.estimator._temperature == pytest.approx(0.1**0.5)
    batch = trainer.task.train_batch(3)
    noise = model.draw_noise(batch.inputs, torch.Generator().manual_seed(0))
    hidden, state = model(batch.inputs, None, None, noise)
    counts = state.memory.reads_BK.unique()
    assert torch.equal(counts, counts.round())
    cell = model.address_KA[hidden.reads.read_TB]
    assert not torch.allclose(hidden.r_TBQ[..., : cell.shape[-1]], cell)  # several cells are read
