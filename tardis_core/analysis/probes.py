"""Probes: small heads fitted to what a frozen network knows at each step.

A probe answers the question "what can be predicted from this?". It is fitted on recorded features,
its best weights are those of the best validation, and it is measured on the test split.

Letters: N steps, F features, O symbols.
"""

import copy
import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.training.adam import Adam

BATCH = 1024
LEARNING_RATE = 3e-3
VALIDATIONS = 10  # during one fit
WIDTH = 256  # of the hidden layer


class Samples(NamedTuple):
    """Steps of a text: what is known at each, and the symbol that follows."""

    features_NF: Tensor
    targets_N: Tensor


class Splits(NamedTuple):
    """The steps to fit on, to choose by and to measure."""

    train: Samples
    valid: Samples
    test: Samples


def additive(features: int, symbols: int) -> nn.Module:
    """A head of the form of Eq. (17): the parts of the features add up to the logits."""
    return nn.Linear(features, symbols)


def with_hidden_layer(features: int, symbols: int) -> nn.Module:
    """A head that can combine the parts of the features."""
    return nn.Sequential(nn.Linear(features, WIDTH), nn.ReLU(), nn.Linear(WIDTH, symbols))


def fitted_bits(head: nn.Module, splits: Splits, updates: int, seed: int = 0) -> float:
    """Test bits per symbol of a head after fitting it."""
    return bits_per_symbol(fit(head, splits, updates, seed), splits.test)


def fit(head: nn.Module, splits: Splits, updates: int, seed: int = 0) -> nn.Module:
    """The head with the weights that had the best validation, fitted by Adam."""
    optimiser = Adam(head.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, updates)
    generator = torch.Generator().manual_seed(seed)
    best, best_bits = head, math.inf
    for update in range(1, updates + 1):
        at_B = torch.randint(len(splits.train.targets_N), (BATCH,), generator=generator)
        logits_BO = head(splits.train.features_NF[at_B])
        optimiser.zero_grad()
        F.cross_entropy(logits_BO, splits.train.targets_N[at_B]).backward()
        optimiser.step()
        schedule.step()
        if update % max(1, updates // VALIDATIONS) == 0:
            bits = bits_per_symbol(head, splits.valid)
            if bits < best_bits:
                best, best_bits = copy.deepcopy(head), bits
    return best


@torch.no_grad()
def bits_per_symbol(head: nn.Module, samples: Samples) -> float:
    """Cross-entropy in bits, averaged over all steps."""
    parts = zip(samples.features_NF.split(65_536), samples.targets_N.split(65_536), strict=True)
    nats = sum(
        float(F.cross_entropy(head(features_NF), targets_N, reduction="sum"))
        for features_NF, targets_N in parts
    )
    return nats / len(samples.targets_N) / math.log(2)
