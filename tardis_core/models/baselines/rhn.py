"""Recurrent highway network: several layers between one step and the next (Zilly et al. 2016).

"Recurrent Highway Networks" (arXiv 1607.03474), Eqs. (6) to (9), with coupled gates c = 1 - t. With
s_0 the output of the step before, for l = 1 to L, where only the first layer sees the input:

    h_l = tanh(W_H x [l = 1] + R_Hl s_{l-1} + b_Hl)
    t_l = sigm(W_T x [l = 1] + R_Tl s_{l-1} + b_Tl)
    s_l = h_l t_l + s_{l-1} (1 - t_l)

Dropout is on h_l, the same share in every layer.

DEVIATION(sec. 5): the paper drops the same units at every step of a sequence and of the state
itself; here it is the recurrent dropout that all our models have, which loses no memory.

Letters: B batch, T time, D input, H hidden, L depth.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tardis_core.errors import require
from tardis_core.models.base import (
    MODELS,
    Hidden,
    ModelConfig,
    SequenceModel,
    dropout_mask,
    require_rates,
    unroll,
)
from tardis_core.settings import setting


@dataclass(frozen=True)
class RhnConfig(ModelConfig):
    """The transition."""

    depth: int = setting(5, "layers between one step and the next (L); the paper has 10 for text")
    transform_bias: float = setting(
        -2.0, "initial bias of the transform gates; negative values pass the state on"
    )
    recurrent_dropout: float = setting(0.0, "dropout rate of the candidate states")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.depth >= 1, f"model.depth must be at least 1, not {self.depth}")
        require_rates(self, "recurrent_dropout")


class RhnState(NamedTuple):
    """The output of the last layer."""

    s_BH: Tensor


@MODELS.register("rhn")
class Rhn(SequenceModel):
    """One matrix per layer holds the rows of h and t."""

    Config = RhnConfig
    config: RhnConfig
    R: Any  # a ModuleList of Linear

    def __init__(self, inputs: int, model: RhnConfig, memory: None, estimator: None) -> None:
        super().__init__()
        self.config = model
        H = model.hidden
        self.W = nn.Linear(inputs, 2 * H, bias=False)
        self.R = nn.ModuleList(nn.Linear(H, 2 * H) for _ in range(model.depth))
        with torch.no_grad():
            for layer in self.R:
                for rows in layer.weight.split(H):
                    nn.init.orthogonal_(rows)
                layer.bias[:H] = 0.0
                layer.bias[H:] = model.transform_bias

    def initial_state(self, batch: int, like: Tensor) -> RhnState:
        return RhnState(like.new_zeros(batch, self.config.hidden))

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> Tensor | None:
        shape = (*x_TBD.shape[:2], self.config.depth, self.config.hidden)
        return dropout_mask(shape, self.config.recurrent_dropout, x_TBD, generator)

    def forward(
        self,
        x_TBD: Tensor,
        state: RhnState | None = None,
        mask_TB: Tensor | None = None,
        noise: Tensor | None = None,
    ) -> tuple[Hidden, RhnState]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        (s_TBH,), state = unroll(self.step, [self.W(x_TBD), noise], state, mask_TB)
        return Hidden(s_TBH), state

    def step(
        self, state: RhnState, zx_BG: Tensor, dropout_BLH: Tensor | None
    ) -> tuple[RhnState, tuple[Tensor]]:
        """All layers of one step."""
        s_BH = state.s_BH
        for n, layer in enumerate(self.R):
            z_BG = layer(s_BH) if n else layer(s_BH) + zx_BG
            candidate_BH, gate_BH = z_BG.chunk(2, dim=1)
            h_BH, t_BH = torch.tanh(candidate_BH), torch.sigmoid(gate_BH)
            if dropout_BLH is not None:
                h_BH = h_BH * dropout_BLH[:, n]
            s_BH = h_BH * t_BH + s_BH * (1 - t_BH)
        return RhnState(s_BH), (s_BH,)
