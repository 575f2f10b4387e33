"""Gumbel-Rao: straight-through Gumbel-softmax with less noise (Paulus, Maddison, Krause 2021,

arXiv 2010.04838). The gradient of `gumbel` depends on the noise g beyond the cell D that it chose;
averaging over the noise given the cell leaves the mean as it is and lowers the variance:

    dL/dpi = 1/S sum_s d softmax((pi + g_s) / tau) / dpi  dL/dw,     g_s ~ Gumbel | D

Given D, with E_k unit exponentials and Z = sum_k exp(pi_k), the noisy logits are

    (pi + g)_D = -log(E_D) + log Z,     (pi + g)_k = -log(E_k / exp(pi_k) + E_D / Z)

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
        scores_SBK = (pi_BK + noise_BK).unsqueeze(0)
        if spare_BSK is not None:
            others_BSK = noisy_given_the_cell(pi_BK.unsqueeze(-2), spare_BSK, read_B)
            scores_SBK = torch.cat([scores_SBK, others_BSK.movedim(-2, 0)])
        tau, S = self.config.temperature, len(scores_SBK)
        return Softmaxes(torch.softmax(scores_SBK / tau, dim=-1), (1 / (S * tau),) * S)


def noisy_given_the_cell(pi_B1K: Tensor, exponential_BSK: Tensor, read_B: Tensor) -> Tensor:
    """pi + g, given that its argmax is the cell that was read."""
    chosen_BS1 = read_B[..., None, None].expand(*exponential_BSK.shape[:-1], 1)
    log_e_BSK, log_z_B11 = exponential_BSK.log(), pi_B1K.logsumexp(-1, keepdim=True)
    of_chosen_BS1 = log_e_BSK.gather(-1, chosen_BS1)
    # In logarithms: a cell with the penalty of the last read has odds of exp(-100).
    others_BSK = -torch.logaddexp(log_e_BSK - pi_B1K, of_chosen_BS1 - log_z_B11)
    return others_BSK.scatter(-1, chosen_BS1, log_z_B11 - of_chosen_BS1)
