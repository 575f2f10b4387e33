"""ReinMax: straight-through to second order (Liu, Dong, Liu, Yu, Gao 2023, arXiv 2304.08612).

Straight-through takes the change of the loss from one cell to another for its derivative at the
cell that was drawn, a first-order approximation. ReinMax averages the derivatives at both ends (the
trapezoidal rule of Heun), which is of second order. With D the one-hot sample of p = softmax(pi):

    q      = (D + softmax(pi / tau)) / 2
    dL/dpi = (2 J(q) - 1/2 J(p)) dL/dw,     J(p) = diag(p) - p p^T

It is exact where the loss is quadratic in w and tau is 1.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from tardis_core.errors import require
from tardis_core.estimators.base import ESTIMATORS, Estimator
from tardis_core.estimators.softmaxes import Softmaxes
from tardis_core.settings import setting


@dataclass(frozen=True)
class ReinMaxConfig:
    """The temperature of the average."""

    temperature: float = setting(
        1.0, "temperature of the softmax that is averaged with the cell that was read"
    )

    def __post_init__(self) -> None:
        value = self.temperature
        require(value > 0, f"estimator.temperature must be above 0, not {value}")


@ESTIMATORS.register("reinmax")
class ReinMax(Estimator):
    """The gradient 2 J(q) - 1/2 J(p)."""

    Config = ReinMaxConfig
    read_gradient = "straight-through"
    config: ReinMaxConfig

    def softmaxes(
        self, pi_BK: Tensor, noise_BK: Tensor, spare_BSK: Tensor | None, read_B: Tensor
    ) -> Softmaxes:
        hard_BK = F.one_hot(read_B, pi_BK.shape[-1]).to(pi_BK.dtype)
        p_BK = torch.softmax(pi_BK, dim=-1)
        q_BK = (hard_BK + torch.softmax(pi_BK / self.config.temperature, dim=-1)) / 2
        return Softmaxes(torch.stack([q_BK, p_BK]), (2.0, -0.5))
