"""Counterfactual reads: what would each cell have led to?

At one of the last W steps of each sequence, drawn at random, cells are tried: the rest of the
sequence is run for each, all else being equal. The sum over the cells takes the place of the one
that was drawn, so the chance of that draw is gone from the gradient:

    W sum_k grad p(k) R(k)

With many cells, only the k likeliest (the set C) are summed, and one of the rest is drawn, weighted
by their mass (sum-and-sample: Liu, Regier, Tripuraneni, Jordan, McAuliffe 2019, arXiv 1810.04777):

    sum_{k in C} grad p(k) R(k) + m grad log p(z) R(z),     z ~ p given not in C,  m = p(not in C)

Both have the mean of REINFORCE for these reads. A constant may be subtracted from R, here the mean
of those that are summed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tardis_core.errors import require
from tardis_core.estimators.base import ESTIMATORS, Episode, Tried
from tardis_core.estimators.noise import gumbel
from tardis_core.estimators.policy import Policy, PolicyConfig, discounted_returns
from tardis_core.settings import setting


@dataclass(frozen=True)
class CounterfactualConfig(PolicyConfig):
    """The reward, and what is tried when."""

    window: int = setting(8, "last reads of a sequence, of which one is judged by trying cells")
    likeliest: int = setting(
        0, "number of likeliest cells to try, in addition to one of the others; 0 tries every cell"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.window >= 1, f"estimator.window must be at least 1, not {self.window}")
        require(self.likeliest >= 0, f"estimator.likeliest must not be negative: {self.likeliest}")


@ESTIMATORS.register("counterfactual")
class Counterfactual(Policy):
    """The gradient of the expected discounted return of one read per sequence."""

    Config = CounterfactualConfig
    read_gradient = "none"
    config: CounterfactualConfig

    def __init__(self, config: CounterfactualConfig, inputs: int, hidden: int) -> None:
        super().__init__(config, inputs, hidden)
        self.window = config.window

    def cells_to_try(self, pi_BK: Tensor, generator: torch.Generator) -> Tensor:
        """All cells in their order, or the likeliest and last one of the others."""
        (B, K), likeliest = pi_BK.shape, self.config.likeliest
        if not 0 < likeliest < K - 1:
            return torch.arange(K, device=pi_BK.device).expand(B, K)
        top_BN = pi_BK.topk(likeliest).indices
        noisy_BK = pi_BK + gumbel((B, K), pi_BK, generator)
        rest_B1 = noisy_BK.scatter(1, top_BN, -torch.inf).argmax(1, keepdim=True)
        return torch.cat([top_BN, rest_B1], 1)

    def value(self, episode: Episode, log_p_TB: Tensor) -> Tensor:
        """The expected return of one read of each sequence, W times: it stands for the last W.

        DEVIATION(eq 16): reads before the last W steps get no gradient of their own.
        """
        tried, T = episode.tried, len(episode.pi_TBK)
        assert tried is not None, "the objective tries cells for an estimator with a window"
        reward_WBN = self.mix(tried.reward_WBN, tried.memory_reward_WBN, episode.progress)
        W, B = reward_WBN.shape[:2]
        everyone = torch.arange(B, device=tried.step_B.device)
        mask_WB1 = episode.mask_TB[T - W :].unsqueeze(-1)
        return_WBN = discounted_returns(reward_WBN, self.config.gamma, mask_WB1)
        return_BN = return_WBN[tried.step_B - (T - W), everyone]
        pi_BK = episode.pi_TBK[tried.step_B, everyone]
        value_B = expected_return(pi_BK, tried, return_BN)
        return W * (value_B * episode.mask_TB[tried.step_B, everyone]).sum()


def expected_return(pi_BK: Tensor, tried: Tried, return_BN: Tensor) -> Tensor:
    """value_B, whose gradient is on average that of the expected return of the read."""
    p_BK, cell_BN, all_cells = torch.softmax(pi_BK, dim=-1), tried.cell_BN, pi_BK.shape[1]
    if cell_BN.shape[1] == all_cells:
        # The odds add up to one, so that a constant changes nothing; it keeps the numbers small.
        return (p_BK * (return_BN - return_BN.mean(-1, keepdim=True))).sum(-1)
    summed_BN, drawn_B1 = cell_BN[:, :-1], cell_BN[:, -1:]
    gain_BN = return_BN - return_BN[:, :-1].mean(-1, keepdim=True)
    p_BN = p_BK.gather(1, summed_BN)
    # Of the others themselves: 1 - p would be rounding where the likeliest have nearly all.
    mass_B = p_BK.detach().scatter(1, summed_BN, 0).sum(-1)
    log_p_B = torch.log_softmax(pi_BK, dim=-1).gather(1, drawn_B1).squeeze(1)
    return (p_BN * gain_BN[:, :-1]).sum(-1) + mass_B * log_p_B * gain_BN[:, -1]
