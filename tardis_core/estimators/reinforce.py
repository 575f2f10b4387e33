"""REINFORCE: sample the cell, and make what was followed by a high likelihood more likely."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from tardis_core.estimators.base import ESTIMATORS, Episode
from tardis_core.estimators.policy import (
    STATISTICS_RATE,
    SampledPolicy,
    SampledPolicyConfig,
    mean_of_the_others,
)
from tardis_core.settings import setting


@dataclass(frozen=True)
class ReinforceConfig(SampledPolicyConfig):
    """The knobs of Eq. (16) and of the auxiliary cost."""

    baseline: Literal["batch", "running", "input", "none"] = setting(
        "batch",
        "subtracted from rewards: mean of the other sequences, running mean, linear in the input",
    )


@ESTIMATORS.register("reinforce")
class Reinforce(SampledPolicy):
    """The gradient of the expected discounted return, by Eq. (16):

    sum_t grad log p(read_t) sum_{j >= t} gamma^(j - t) (R_j - b_j).
    """

    Config = ReinforceConfig
    read_gradient = "none"
    config: ReinforceConfig
    reward_mean: Tensor

    def __init__(self, config: ReinforceConfig, inputs: int, hidden: int) -> None:
        super().__init__(config, inputs, hidden)
        self.register_buffer("reward_mean", torch.zeros(()))
        self.input_baseline = nn.Linear(inputs, 1) if config.baseline == "input" else None

    def loss(self, episode: Episode) -> tuple[Tensor, dict[str, Tensor]]:
        """That of the policy and, where it has parameters, of the baseline."""
        loss, metrics = super().loss(episode)
        if self.input_baseline is None:
            return loss, metrics
        error_TB = self.reward(episode) - self.input_baseline(episode.x_TBD).squeeze(-1)
        return loss + (error_TB.square() * episode.mask_TB).sum() / episode.mask_TB.sum(), metrics

    def baseline(self, reward_TB: Tensor, episode: Episode) -> Tensor:
        if self.input_baseline is not None:
            return self.input_baseline(episode.x_TBD).squeeze(-1)
        if self.config.baseline == "batch":
            return mean_of_the_others(reward_TB, episode.mask_TB, reward_TB.shape[1])
        if self.config.baseline == "running":
            baseline = self.reward_mean.clone()
            mean = (reward_TB * episode.mask_TB).sum() / episode.mask_TB.sum()
            self.reward_mean.lerp_(mean, STATISTICS_RATE)
            return baseline.expand_as(reward_TB)
        return torch.zeros_like(reward_TB)
