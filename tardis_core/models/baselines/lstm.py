"""The LSTM baseline: TARDIS's controller with nothing to read."""

from typing import NamedTuple

import torch
from torch import Tensor

from tardis_core import kernels
from tardis_core.kernels.inputs import Fixed, Trained
from tardis_core.models.base import MODELS, Hidden, SequenceModel, declared, unroll
from tardis_core.models.controller import (
    Controller,
    ControllerState,
    LstmConfig,
    recurrent_dropout,
)


class LstmNoise(NamedTuple):
    """The noise of a whole sequence."""

    dropout_TBH: Tensor | None


@MODELS.register("lstm")
class Lstm(SequenceModel):
    """LSTM with optional layer normalisation and recurrent dropout, as the paper's baseline has."""

    Config = LstmConfig
    config: LstmConfig
    recurrence = "lstm"

    def __init__(self, inputs: int, model: LstmConfig, memory: None, estimator: None) -> None:
        super().__init__()
        self.config = model
        self.controller = Controller.of(model, inputs)

    def initial_state(self, batch: int, like: Tensor) -> ControllerState:
        return ControllerState.empty(batch, self.config.hidden, like)

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> LstmNoise:
        return LstmNoise(recurrent_dropout(self.config, x_TBD, generator))

    def kernel_needs(self) -> kernels.Needs:
        return kernels.Needs(declared(self, "recurrence"), dtype=self.controller.b.dtype)

    def _kernel_tensors(
        self,
        x_TBD: Tensor,
        state: ControllerState,
        mask_TB: Tensor | None,
        noise: LstmNoise | None,
    ) -> tuple[Trained, Fixed]:
        """The model and its sequence as a kernel takes them: without a memory."""
        part = self.controller
        weights = (part.W_x.weight, part.b, part.W_h.weight, None, part.gain)
        return Trained(x_TBD, *weights, *state), Fixed(
            mask_TB, noise.dropout_TBH if noise else None
        )

    def forward(
        self,
        x_TBD: Tensor,
        state: ControllerState | None = None,
        mask_TB: Tensor | None = None,
        noise: LstmNoise | None = None,
    ) -> tuple[Hidden, ControllerState]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        backend = kernels.resolve(self, x_TBD)
        if backend != "reference":
            outputs = kernels.run(backend, *self._kernel_tensors(x_TBD, state, mask_TB, noise))
            return Hidden(outputs.h_TBH), ControllerState(outputs.h_BH, outputs.c_BH)
        over = [self.controller.project_inputs(x_TBD), *(noise or LstmNoise(None))]
        (h_TBH,), state = unroll(self.step, over, state, mask_TB)
        return Hidden(h_TBH), state

    def step(
        self, state: ControllerState, zx_BG: Tensor, dropout_BH: Tensor | None
    ) -> tuple[ControllerState, tuple[Tensor]]:
        """A step of the controller."""
        new, _ = self.controller(zx_BG, None, state, dropout_BH=dropout_BH)
        return new, (new.h_BH,)
