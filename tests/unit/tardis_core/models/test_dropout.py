"""Masks of dropout: the share that is dropped, and the scale of what is kept."""

import pytest
import torch

from tardis_core.models.base import drop, dropout_mask


def mask(shape, rate, seed=0, dtype=torch.float64):
    like = torch.zeros((), dtype=dtype)
    return dropout_mask(shape, rate, like, torch.Generator().manual_seed(seed))


def test_nothing_is_dropped_at_a_rate_of_zero():
    assert mask((3, 2), 0.0) is None
    x, generator = torch.ones(3), torch.Generator().manual_seed(0)
    before = generator.get_state()
    assert drop(x, 0.0, generator) is x
    assert torch.equal(generator.get_state(), before)


@pytest.mark.parametrize("shape", [(1,), (3,), (5, 3), (2, 5, 2)])
def test_a_mask_has_the_shape_and_the_type_that_are_asked_for(shape):
    result = mask(shape, 0.5, dtype=torch.float32)
    assert (result.shape, result.dtype) == (shape, torch.float32)


@pytest.mark.parametrize("rate", [0.25, 0.5, 0.9])
def test_the_share_of_zeros_is_the_rate_and_the_rest_makes_up_for_it(rate):
    result = mask((40_000,), rate)
    zeros = (result == 0).double().mean().item()
    assert zeros == pytest.approx(rate, abs=4 * (rate * (1 - rate) / 40_000) ** 0.5)
    assert result.max().item() == pytest.approx(1 / (1 - rate), rel=1e-4)


def test_neighbours_are_dropped_independently():
    kept = (mask((80_000,), 0.5).view(-1, 4) > 0).double()  # four of one number
    assert torch.corrcoef(kept.T).triu(1).abs().max() < 0.03


def test_rates_are_multiples_of_two_to_the_minus_16():
    assert mask((8,), 2**-16).max().item() == 2**16 / (2**16 - 1)
    assert mask((8,), 2**-18).unique().tolist() == [1.0]  # rounded to nothing
    almost_all = mask((2**20,), 0.9999999)
    assert almost_all.max().item() == 2**16  # the least that can be kept
    assert 1 <= (almost_all > 0).sum() <= 50  # 16 on average


def test_what_is_dropped_is_multiplied_with_the_mask():
    x = torch.full((6, 5), 3.0)
    expected = 3 * mask((6, 5), 0.4, seed=2, dtype=torch.float32)
    assert torch.equal(drop(x, 0.4, torch.Generator().manual_seed(2)), expected)
