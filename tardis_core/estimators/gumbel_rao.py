"""Gumbel-Rao: straight-through Gumbel-softmax with less noise (Paulus, Maddison, Krause 2021,

arXiv 2010.04838). The gradient of `gumbel` depends on the noise g beyond the cell D that it chose;
averaging over the noise given the cell leaves the mean as it is and lowers the variance:

    dL/dpi = 1/S sum_s d softmax((pi + g_s) / tau) / dpi  dL/dw,     g_s ~ Gumbel | D

Given D, with E_k unit exponentials and Z = sum_k exp(pi_k), the noisy logits are

    (pi + g)_D = -log(E_D) + log Z,     (pi + g)_k = -log(E_k / exp(pi_k) + E_D / Z)

so that, with p = softmax(pi), a cell's odds against D are

    exp((pi + g)_k - (pi + g)_D) = p_k E_D / (E_k + p_k E_D),

and the g_s are constants: the paper's text would differentiate through them too, which biases the
estimator away from `gumbel` (noted by N. Shepperd with his public code). g_1 is the noise that drew
the cell, which is a sample given the cell; with S = 1 this is Gumbel-softmax at temperature tau.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tardis_core.errors import require
from tardis_core.estimators.base import ESTIMATORS, Estimator
from tardis_core.estimators.noise import exponential
from tardis_core.estimators.softmaxes import Softmaxes
from tardis_core.settings import setting


@dataclass(frozen=True)
class GumbelRaoConfig:
    """The temperature and the number of samples."""

    temperature: float = setting(0.5, "temperature of the softmax (tau)")
    samples: int = setting(8, "samples of the noise given the cell, averaged per read (S)")

    def __post_init__(self) -> None:
        require(
            self.temperature > 0, f"estimator.temperature must be above 0, not {self.temperature}"
        )
        require(self.samples >= 1, f"estimator.samples must be at least 1, not {self.samples}")


@ESTIMATORS.register("gumbel-rao")
class GumbelRao(Estimator):
    """The mean gradient of Gumbel-softmax, given the cell that was read."""

    Config = GumbelRaoConfig
    read_gradient = "straight-through"
    config: GumbelRaoConfig

    def draw_noise(
        self, shape: tuple[int, ...], like: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """The spare noise: exponentials of the samples beside the first."""
        noise, _ = super().draw_noise(shape, like, generator)
        others = self.config.samples - 1
        if not others:
            return noise, None
        return noise, exponential((*shape[:-1], others, shape[-1]), like, generator)

    def softmaxes(
        self, pi_BK: Tensor, noise_BK: Tensor, spare_BSK: Tensor | None, read_B: Tensor
    ) -> Softmaxes:
        tau, S = self.config.temperature, self.config.samples
        p_SBK = torch.softmax((pi_BK + noise_BK) / tau, dim=-1).unsqueeze(0)
        if spare_BSK is not None:
            odds_BSK = odds_given_the_cell(torch.softmax(pi_BK, dim=-1), spare_BSK, read_B)
            # The softmax of logits over tau, without logarithms, which take most of the time.
            powers_SBK = odds_BSK.pow_(1 / tau).movedim(-2, 0)
            p_SBK = torch.cat([p_SBK, powers_SBK / powers_SBK.sum(-1, keepdim=True)])
        return Softmaxes(p_SBK, (1 / (S * tau),) * S)


def odds_given_the_cell(p_BK: Tensor, exponential_BSK: Tensor, read_B: Tensor) -> Tensor:
    """exp(pi + g) of each cell over that of the cell that was read, where pi + g is largest."""
    chosen_BS1 = read_B[..., None, None].expand(*exponential_BSK.shape[:-1], 1)
    scaled_BSK = p_BK.unsqueeze(-2) * exponential_BSK.gather(-1, chosen_BS1)
    return (scaled_BSK / (exponential_BSK + scaled_BSK)).scatter_(-1, chosen_BS1, 1.0)
