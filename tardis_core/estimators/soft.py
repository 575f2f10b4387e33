"""A soft read in training, a hard one at evaluation: what does discreteness cost?

    training     w = softmax(pi / T) or 1.5-entmax(pi / T), T falling from first to last
    evaluation   w = one-hot of the argmax of pi

The gradient is exact, that of another model: one that reads a mixture of cells. The temperature
falls geometrically over the training, so that the mixture ends near a single cell.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tardis_core.errors import require
from tardis_core.estimators.base import ESTIMATORS, Estimator, one_hot_argmax
from tardis_core.estimators.entmax import entmax15
from tardis_core.settings import setting


@dataclass(frozen=True)
class SoftConfig:
    """The function, and how its temperature falls."""

    function: Literal["softmax", "entmax"] = setting(
        "softmax", "read weights: softmax, or 1.5-entmax, which leaves most cells out"
    )
    temperature: float = setting(1.0, "temperature at the start of the training")
    final_temperature: float = setting(0.1, "temperature at the end of the training")

    def __post_init__(self) -> None:
        for name in ("temperature", "final_temperature"):
            value = getattr(self, name)
            require(value > 0, f"estimator.{name} must be above 0, not {value}")


@ESTIMATORS.register("soft")
class Soft(Estimator):
    """It has no kernel: its reads are not those of one cell."""

    Config = SoftConfig
    one_cell = False
    config: SoftConfig

    def __init__(self, config: SoftConfig, inputs: int, hidden: int) -> None:
        super().__init__(config, inputs, hidden)
        self._temperature = config.temperature

    def before_batch(self, progress: float) -> None:
        first, last = self.config.temperature, self.config.final_temperature
        self._temperature = first * (last / first) ** progress

    def read_weights(
        self, pi_BK: Tensor, noise_BK: Tensor | None, h_BH: Tensor, spare_BSK: Tensor | None = None
    ) -> Tensor:
        """Noise tells training from evaluation; it moves nothing."""
        if noise_BK is None:
            return one_hot_argmax(pi_BK)
        scores_BK = pi_BK / self._temperature
        soft = self.config.function == "softmax"
        return torch.softmax(scores_BK, dim=-1) if soft else entmax15(scores_BK)
