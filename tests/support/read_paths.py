"""Every path of reads through a short sequence: expectations without sampling."""

import itertools
from typing import NamedTuple

import torch
from torch import Tensor

from tardis_core.build import build_network
from tardis_core.config import make_config
from tardis_core.estimators.base import Episode
from tardis_core.models.tardis import TardisNoise
from tardis_core.tasks.base import Batch, Signature

SIGNATURE = Signature(inputs=2, symbols=False, outputs=3, bits=False)


PLAIN = {"estimator.baseline": "none", "estimator.normalise_variance": False}  # of REINFORCE


def make_network(K, estimator="reinforce", **settings):
    """A tiny network with large weights, so that reads matter and odds are uneven."""
    plain = {
        "model.hidden": 3,
        "memory.cells": K,
        "memory.address": 2,
        "memory.content": 2,
        "memory.attention": 2,
        "estimator.auxiliary": False,
        "estimator.gamma": 1.0,
        "estimator.weight": 1.0,
        "estimator.entropy": 0.0,
    }
    plain |= PLAIN if estimator == "reinforce" else {}
    config = make_config("copy", "tardis", estimator, "smoke", overrides=plain | settings)
    network = build_network(config, SIGNATURE).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator).double())
    return network


def make_batch(T, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Batch(
        torch.randn(T, 1, 2, generator=generator).double(),
        torch.randint(3, (T, 1), generator=generator),
        torch.ones(T, 1, dtype=torch.bool),
    )


class Paths(NamedTuple):
    """Every path of reads through one sequence, side by side."""

    pi_TNK: Tensor
    read_TN: Tensor
    reward_TN: Tensor  # log-likelihood of the targets
    x_TND: Tensor

    @property
    def log_p_TN(self):
        """Log-odds of each read, the last-read penalty included."""
        log_p = torch.log_softmax(self.pi_TNK, -1)
        return log_p.gather(-1, self.read_TN.unsqueeze(-1)).squeeze(-1)

    @property
    def p_N(self):
        return self.log_p_TN.sum(0).exp()

    def episode(self, *numbers):
        """Some of the paths, as a batch."""
        chosen = [part[:, list(numbers)] for part in self]
        pi, read, reward, x = chosen
        return Episode(pi, read, x, reward, None, torch.ones_like(reward), 0.0)


def forced(read_TN, K):
    """Noise that leaves no choice."""
    return TardisNoise(1e6 * torch.nn.functional.one_hot(read_TN, K).double(), None, None)


def all_paths(network, batch):
    T, K = len(batch.inputs), network.model.memory_config.cells
    read_TN = torch.tensor(list(itertools.product(range(K), repeat=T))).T
    count = read_TN.shape[1]
    x = batch.inputs.expand(-1, count, -1)
    hidden, _ = network.model(x, None, None, forced(read_TN, K))
    assert torch.equal(hidden.reads.read_TB, read_TN)
    logits = network.head(hidden.h_TBH, hidden.r_TBQ)
    wide = Batch(x, batch.targets.expand(-1, count), batch.scored_TB.expand(-1, count))
    reward = SIGNATURE.log_likelihood(logits, wide).detach()
    return Paths(hidden.reads.pi_TBK, read_TN, reward, x)


def gradient(network, total):
    """Of the addressing parameters, as one vector."""
    parameters = list(network.model.addressing.parameters())
    result = torch.autograd.grad(total, parameters, retain_graph=True)
    return torch.cat([part.flatten() for part in result])


def expected_estimate(network, paths):
    """The mean over paths of the gradient that one sequence alone gives; ascent, not descent."""
    estimator, T = network.model.estimator, len(paths.read_TN)
    saved = {name: buffer.clone() for name, buffer in estimator.named_buffers()}
    total = 0.0
    for n, p in enumerate(paths.p_N.detach()):
        estimator.load_state_dict(estimator.state_dict() | saved)
        total = total - p * T * estimator.loss(paths.episode(n))[0]
    return gradient(network, total)


def assert_same(mine, theirs):
    assert theirs.abs().max() > 1e-2  # there is something to get wrong
    torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


def expected_return(network, batch):
    paths = all_paths(network, batch)
    return (paths.p_N * paths.reward_TN.sum(0)).sum()
