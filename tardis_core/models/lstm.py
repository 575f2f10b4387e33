"""The LSTM baseline: TARDIS's controller with nothing to read."""

from typing import NamedTuple

import torch
from torch import Tensor

from tardis_core import kernels
from tardis_core.models.base import (
    MODELS,
    Hidden,
    SequenceModel,
    dropout_mask,
    keep_where_masked,
)
from tardis_core.models.controller import Controller, ControllerState, LstmConfig


class LstmNoise(NamedTuple):
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
        dropout_TBH = noise.dropout_TBH if noise else None
        hidden = []
        for t, zx_BG in enumerate(self.controller.project_inputs(x_TBD).unbind()):
            dropout_BH = dropout_TBH[t] if dropout_TBH is not None else None
            new, _ = self.controller(zx_BG, None, state, dropout_BH=dropout_BH)
            state = new if mask_TB is None else keep_where_masked(mask_TB[t], new, state)
            hidden.append(new.h_BH)
        return Hidden(torch.stack(hidden)), state
