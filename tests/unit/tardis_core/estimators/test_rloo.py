"""RLOO: runs of one sequence, each judged by the others."""

import itertools

import pytest
import torch

from tardis_core.estimators.base import Episode
from tardis_core.estimators.rloo import Rloo, RlooConfig
from tests.support.read_paths import (
    all_paths,
    assert_same,
    expected_return,
    gradient,
    make_batch,
    make_network,
)


def test_runs_of_a_sequence_are_judged_by_each_other():
    settings = RlooConfig(
        auxiliary=False, gamma=1.0, normalise_variance=False, weight=1.0, entropy=0.0, copies=2
    )
    reward = torch.tensor([[-5.0, -7.0, -1.0, -1.0]])
    pi = torch.zeros(1, 4, 2).requires_grad_()
    read, x = torch.ones(1, 4, dtype=torch.int64), torch.zeros(1, 4, 2)
    episode = Episode(pi, read, x, reward, None, torch.ones(1, 4), 0.0)
    Rloo(settings, 2, 3).loss(episode)[0].backward()
    # With even odds half of what a read is worth is the gradient of its logit.
    assert (-2 * 4 * pi.grad[..., 1]).tolist() == [[2, -2, 0, 0]]


@pytest.mark.parametrize("copies", [2, 3])
def test_it_is_unbiased_over_all_groups_of_paths(copies):
    K, T = 3, 2 if copies == 2 else 1
    network = make_network(
        K, "rloo", **{"estimator.copies": copies, "estimator.normalise_variance": False}
    )
    batch = make_batch(T)
    paths, total = all_paths(network, batch), 0.0
    for group in itertools.product(range(K**T), repeat=copies):
        p = paths.p_N[list(group)].prod().detach()
        loss, _ = network.model.estimator.loss(paths.episode(*group))
        total = total - p * T * loss
    assert_same(gradient(network, total), gradient(network, expected_return(network, batch)))
