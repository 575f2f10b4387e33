"""Straight-through without noise on the way back, with two temperatures of their own.

Decoupled straight-through (Shah, Yan, Mozer, Liu 2024, arXiv 2410.13331):

    forward    w = one-hot sample of softmax(pi / tau_f)
    backward   dL/dpi = d softmax(pi / tau_b) / dpi  dL/dw

tau_f decides how much reads explore, tau_b over how many cells the gradient spreads. With
tau_f = tau_b = 1 it is the estimator of Bengio, Leonard, Courville 2013. `learned` puts the learned
inverse temperature of `gumbel` in the place of 1 / tau_b: beside `gumbel` it shows what the noise
on the way back does, and beside a fixed one what learning the temperature does.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tardis_core.errors import require
from tardis_core.estimators.base import ESTIMATORS, Estimator, one_hot_argmax
from tardis_core.estimators.gumbel import hard_and_soft, inverse_temperature
from tardis_core.estimators.softmaxes import Softmaxes
from tardis_core.settings import setting


@dataclass(frozen=True)
class StraightThroughConfig:
    """The two temperatures."""

    temperature: float = setting(1.0, "temperature of the softmax that is differentiated (tau_b)")
    forward_temperature: float = setting(
        1.0, "temperature of the softmax that reads are drawn from (tau_f)"
    )
    learned: bool = setting(
        False, "whether 1 / tau_b is learned from the state, as the inverse temperature of gumbel"
    )

    def __post_init__(self) -> None:
        for name in ("temperature", "forward_temperature"):
            value = getattr(self, name)
            require(value > 0, f"estimator.{name} must be above 0, not {value}")


@ESTIMATORS.register("straight-through")
class StraightThrough(Estimator):
    """The gradient of softmax(pi / tau_b), which does not depend on what was drawn."""

    Config = StraightThroughConfig
    read_gradient = "straight-through"
    noisy_temperature = False
    config: StraightThroughConfig

    def __init__(self, config: StraightThroughConfig, inputs: int, hidden: int) -> None:
        super().__init__(config, inputs, hidden)
        self.w_tau = nn.Linear(hidden, 1) if config.learned else None

    def draw_noise(
        self, shape: tuple[int, ...], like: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """argmax(pi + tau_f g) is that of pi / tau_f + g: a sample of softmax(pi / tau_f)."""
        noise, _ = super().draw_noise(shape, like, generator)
        return noise.mul_(self.config.forward_temperature), None

    def learned_temperature(self) -> nn.Linear | None:
        return self.w_tau

    def softmaxes(
        self, pi_BK: Tensor, noise_BK: Tensor, spare_BSK: Tensor | None, read_B: Tensor
    ) -> Softmaxes:
        inverse = 1 / self.config.temperature
        return Softmaxes(torch.softmax(pi_BK * inverse, dim=-1).unsqueeze(0), (inverse,))

    def read_weights(
        self, pi_BK: Tensor, noise_BK: Tensor | None, h_BH: Tensor, spare_BSK: Tensor | None = None
    ) -> Tensor:
        if self.w_tau is None or noise_BK is None:
            return super().read_weights(pi_BK, noise_BK, h_BH, spare_BSK)
        hard_BK = one_hot_argmax(pi_BK + noise_BK)
        return hard_and_soft(hard_BK, pi_BK * inverse_temperature(self.w_tau, h_BH))
