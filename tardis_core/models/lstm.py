"""The LSTM baseline: TARDIS's controller with nothing to read."""

from typing import NamedTuple

import torch
from torch import Tensor

from tardis_core import kernels
from tardis_core.models.base import MODELS, Hidden, SequenceModel, dropout_mask, unroll
from tardis_core.models.controller import Controller, ControllerState, LstmConfig


class LstmNoise(NamedTuple):
    """The noise of a whole sequence."""

    dropout_TBH: Tensor | None


@MODELS.register("lstm")
class Lstm(SequenceModel):
    """LSTM with optional layer normalisation and recurrent dropout, as the paper's baseline has."""

    Config = LstmConfig
    config: LstmConfig

    def __init__(self, inputs: int, model: LstmConfig, memory: None, estimator: None) -> None:
        super().__init__()
        self.config = model
        self.controller = Controller(
            inputs, model.hidden, layer_norm=model.layer_norm, forget_bias=model.forget_bias
        )

    def initial_state(self, batch: int, like: Tensor) -> ControllerState:
        zeros = like.new_zeros(batch, self.config.hidden)
        return ControllerState(zeros, zeros)

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> LstmNoise:
        shape = (*x_TBD.shape[:2], self.config.hidden)
        return LstmNoise(dropout_mask(shape, self.config.recurrent_dropout, x_TBD, generator))

    def forward(
        self,
        x_TBD: Tensor,
        state: ControllerState | None = None,
        mask_TB: Tensor | None = None,
        noise: LstmNoise | None = None,
    ) -> tuple[Hidden, ControllerState]:
        backend = kernels.resolve(self, x_TBD)
        if backend != "reference":
            return kernels.run_lstm(backend, self, x_TBD, state, mask_TB, noise)
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        over = [self.controller.project_inputs(x_TBD), *(noise or LstmNoise(None))]
        (h_TBH,), state = unroll(self.step, over, state, mask_TB)
        return Hidden(h_TBH), state

    def step(
        self, state: ControllerState, zx_BG: Tensor, dropout_BH: Tensor | None
    ) -> tuple[ControllerState, tuple[Tensor]]:
        """A step of the controller."""
        new, _ = self.controller(zx_BG, None, state, dropout_BH=dropout_BH)
        return new, (new.h_BH,)
