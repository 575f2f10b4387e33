"""Zoneout LSTM: units keep their value of the step before, at random (Krueger et al. 2016).

    c_t = d_c c_{t-1} + (1 - d_c) (f c_{t-1} + i g)
    h_t = d_h h_{t-1} + (1 - d_h) o tanh(f c_{t-1} + i g)

where d_c and d_h are zeros and ones drawn for every unit and step ("Zoneout: Regularizing RNNs by
Randomly Preserving Hidden Activations", arXiv 1606.01305). At evaluation they are their means.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tardis_core.models.base import (
    MODELS,
    Hidden,
    SequenceModel,
    require_rates,
    unroll,
)
from tardis_core.models.controller import Controller, ControllerState, LstmConfig, recurrent_dropout
from tardis_core.settings import setting


@dataclass(frozen=True)
class ZoneoutConfig(LstmConfig):
    """The defaults are the paper's for characters of the Penn Treebank."""

    zoneout_cell: float = setting(0.5, "share of the cell state that is kept from the step before")
    zoneout_hidden: float = setting(
        0.05, "share of the hidden units that are kept from the step before"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_rates(self, "zoneout_cell", "zoneout_hidden")


class ZoneoutNoise(NamedTuple):
    """The noise of a whole sequence."""

    keep_c_TBH: Tensor  # d_c
    keep_h_TBH: Tensor  # d_h
    dropout_TBH: Tensor | None


@MODELS.register("zoneout")
class Zoneout(SequenceModel):
    """TARDIS's controller without a memory, and with zoneout."""

    Config = ZoneoutConfig
    config: ZoneoutConfig

    def __init__(self, inputs: int, model: ZoneoutConfig, memory: None, estimator: None) -> None:
        super().__init__()
        self.config = model
        self.controller = Controller.of(model, inputs)

    def initial_state(self, batch: int, like: Tensor) -> ControllerState:
        return ControllerState.empty(batch, self.config.hidden, like)

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> ZoneoutNoise:
        shape = (*x_TBD.shape[:2], self.config.hidden)

        def stays(share: float) -> Tensor:
            return x_TBD.new_empty(shape).bernoulli_(share, generator=generator)

        return ZoneoutNoise(
            stays(self.config.zoneout_cell),
            stays(self.config.zoneout_hidden),
            recurrent_dropout(self.config, x_TBD, generator),
        )

    def forward(
        self,
        x_TBD: Tensor,
        state: ControllerState | None = None,
        mask_TB: Tensor | None = None,
        noise: ZoneoutNoise | None = None,
    ) -> tuple[Hidden, ControllerState]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        over = [self.controller.project_inputs(x_TBD), *(noise or (None, None, None))]
        (h_TBH,), state = unroll(self.step, over, state, mask_TB)
        return Hidden(h_TBH), state

    def step(
        self,
        state: ControllerState,
        zx_BG: Tensor,
        keep_c_BH: Tensor | None,
        keep_h_BH: Tensor | None,
        dropout_BH: Tensor | None,
    ) -> tuple[ControllerState, tuple[Tensor]]:
        """A step of the LSTM, then a part of the old state."""
        new, _ = self.controller(zx_BG, None, state, dropout_BH=dropout_BH)
        d_c = self.config.zoneout_cell if keep_c_BH is None else keep_c_BH
        d_h = self.config.zoneout_hidden if keep_h_BH is None else keep_h_BH
        c_BH = d_c * state.c_BH + (1 - d_c) * new.c_BH
        h_BH = d_h * state.h_BH + (1 - d_h) * new.h_BH
        return ControllerState(h_BH, c_BH), (h_BH,)
