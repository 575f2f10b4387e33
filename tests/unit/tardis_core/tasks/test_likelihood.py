"""What a task makes of logits: nats per step, the loss, and sums over an evaluation."""

import math

import pytest
import torch

from tardis_core.tasks.base import Batch, Signature

CLASSES = Signature(inputs=3, symbols=True, outputs=3, bits=False)
BITS = Signature(inputs=2, symbols=False, outputs=2, bits=True)


def one_step(targets, scored=True):
    return Batch(torch.zeros(1, 1), torch.tensor([[targets]]), torch.tensor([[scored]]))


def test_cross_entropy_by_hand():
    logits = torch.tensor([1.0, 2.0, 0.5]).log().view(1, 1, 3)
    ll = CLASSES.log_likelihood(logits, one_step(1))
    assert float(ll) == pytest.approx(math.log(2.0 / 3.5))
    assert float(CLASSES.loss(ll, one_step(1))) == pytest.approx(-math.log(2.0 / 3.5))


def test_likelihood_of_bits_is_their_product_and_the_loss_is_a_bit():
    logits = torch.tensor([0.0, math.log(3.0)]).view(1, 1, 2)  # probabilities 1/2 and 3/4
    batch = one_step([1.0, 0.0])
    ll = BITS.log_likelihood(logits, batch)
    assert float(ll) == pytest.approx(math.log(0.5 * 0.25))
    assert float(BITS.loss(ll, batch)) == pytest.approx(-math.log(0.5 * 0.25) / 2)


def test_what_is_not_scored_counts_for_nothing():
    logits = torch.randn(2, 1, 3)
    scored = torch.tensor([[True], [False]])
    batch = Batch(torch.zeros(2, 1), torch.tensor([[0], [2]]), scored)
    ll = CLASSES.log_likelihood(logits, batch)
    assert float(ll[1]) == 0
    assert float(CLASSES.loss(ll, batch)) == pytest.approx(float(-ll[0]))


def test_likelihood_is_taken_in_float32_where_logits_are_coarser():
    logits = torch.randn(4, 2, 3).bfloat16()
    batch = Batch(torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.int64), torch.ones(4, 2) > 0)
    assert CLASSES.log_likelihood(logits, batch).dtype == torch.float32
