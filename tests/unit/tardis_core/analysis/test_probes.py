"""Probes: heads fitted to what is known at a step."""

import math

import pytest
import torch
from torch.nn import functional as F

from tardis_core.analysis import probes
from tardis_core.analysis.probes import Samples, Splits


def exclusive_or(steps: int, seed: int) -> Samples:
    """Two bits; the symbol that follows tells whether they differ."""
    generator = torch.Generator().manual_seed(seed)
    bits_N2 = torch.randint(2, (steps, 2), generator=generator)
    features_NF = F.one_hot(bits_N2, 2).flatten(1).float()
    return Samples(features_NF, bits_N2.sum(-1) % 2)


@pytest.fixture(scope="module")
def splits():
    return Splits(exclusive_or(4000, 1), exclusive_or(500, 2), exclusive_or(500, 3))


@pytest.mark.slow
def test_an_additive_head_cannot_combine_its_parts_and_a_hidden_layer_can(splits):
    torch.manual_seed(0)
    additive = probes.fitted_bits(probes.additive(4, 2), splits, updates=200)
    combined = probes.fitted_bits(probes.with_hidden_layer(4, 2), splits, updates=200)
    assert additive == pytest.approx(1, abs=0.02)
    assert combined < 0.05


def test_the_weights_of_the_best_validation_are_kept(splits):
    reversed_targets = splits.valid._replace(targets_N=1 - splits.valid.targets_N)
    torch.manual_seed(0)
    head = probes.with_hidden_layer(4, 2)
    kept = probes.fit(head, splits._replace(valid=reversed_targets), updates=100)
    # Validation contradicts training here: the first validation is the best, the last the worst.
    assert probes.bits_per_symbol(kept, splits.train) > probes.bits_per_symbol(head, splits.train)


def test_bits_are_those_of_the_cross_entropy():
    samples = Samples(torch.zeros(3, 1), torch.tensor([0, 1, 1]))
    head = probes.additive(1, 2)
    with torch.no_grad():
        head.bias.copy_(torch.tensor([math.log(3.0), 0.0]))  # probabilities 3/4 and 1/4
    assert probes.bits_per_symbol(head, samples) == pytest.approx((math.log2(4 / 3) + 2 * 2) / 3)
