"""Gumbel-softmax with the straight-through estimator and a learned inverse temperature."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.estimators.base import ESTIMATORS, Estimator, one_hot_argmax


@dataclass(frozen=True)
class GumbelConfig:
    """It has no settings: the temperature is learned."""


@ESTIMATORS.register("gumbel")
class Gumbel(Estimator):
    """Forward the one-hot of the argmax, backward the gradient of

    softmax((pi + Gumbel noise) tau(h)),    tau(h) = softplus(w . h + b) + 1.
    """

    Config = GumbelConfig
    read_gradient = "straight-through"

    def __init__(self, config: GumbelConfig, inputs: int, hidden: int) -> None:
        super().__init__(config, inputs, hidden)
        self.w_tau = nn.Linear(hidden, 1)

    def learned_temperature(self) -> nn.Linear:
        return self.w_tau

    def inverse_temperature(self, h_BH: Tensor) -> Tensor:
        """tau(h)_B1, above 1."""
        return inverse_temperature(self.w_tau, h_BH)

    def read_weights(
        self, pi_BK: Tensor, noise_BK: Tensor | None, h_BH: Tensor, spare_BSK: Tensor | None = None
    ) -> Tensor:
        scores_BK = pi_BK if noise_BK is None else pi_BK + noise_BK
        # tau is positive: it moves no argmax, so the forward read does not need it.
        hard_BK = one_hot_argmax(scores_BK)
        if noise_BK is None:
            return hard_BK
        return hard_and_soft(hard_BK, scores_BK * self.inverse_temperature(h_BH))


def inverse_temperature(w_tau: nn.Linear, h_BH: Tensor) -> Tensor:
    """tau(h)_B1 = softplus(w . h + b) + 1."""
    # DEVIATION(eq 18): of h_{t-1}, as for the read logits.
    return F.softplus(w_tau(h_BH)) + 1


def hard_and_soft(hard_BK: Tensor, scores_BK: Tensor) -> Tensor:
    """`hard_BK` with the gradient of the softmax of the scores."""
    soft_BK = torch.softmax(scores_BK, dim=-1)
    return hard_BK + (soft_BK - soft_BK.detach())  # the bracket is exactly zero
