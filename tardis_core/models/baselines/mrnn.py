"""MRNN: an RNN whose recurrent matrix depends on the input (Sutskever et al. 2011).

"Generating Text with Recurrent Neural Networks" (ICML 2011), section 3.3. F factors stand between
the input and the recurrent matrix, which is W_hf diag(W_fx x) W_fh:

    f_t = (W_fx x_t) * (W_fh h_{t-1})
    h_t = tanh(W_hf f_t + W_hx x_t + b)

DEVIATION(training): Adam and not the Hessian-free optimiser of the paper's HF-MRNN.
DEVIATION(f): W_fx x has a bias that starts at 1. With one-hot inputs it adds nothing; with inputs
of zeros, such as those of copy, there would be no way from h to h without it.

Letters: B batch, T time, D input, H hidden, F factors.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tardis_core.errors import require
from tardis_core.models.base import MODELS, Hidden, ModelConfig, SequenceModel, unroll
from tardis_core.settings import setting


@dataclass(frozen=True)
class MrnnConfig(ModelConfig):
    """The factors."""

    factors: int = setting(0, "number of factors (F); 0 uses model.hidden, as in the paper")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.factors >= 0, f"model.factors must not be negative: {self.factors}")


class MrnnState(NamedTuple):
    """The hidden units."""

    h_BH: Tensor


@MODELS.register("mrnn")
class Mrnn(SequenceModel):
    """No gates: the input chooses the transition."""

    Config = MrnnConfig
    config: MrnnConfig

    def __init__(self, inputs: int, model: MrnnConfig, memory: None, estimator: None) -> None:
        super().__init__()
        self.config = model
        H, F = model.hidden, model.factors or model.hidden
        self.W_fx = nn.Linear(inputs, F)
        self.W_hx = nn.Linear(inputs, H)
        self.W_fh = nn.Linear(H, F, bias=False)
        self.W_hf = nn.Linear(F, H, bias=False)
        with torch.no_grad():
            self.W_fx.bias.fill_(1.0)
            nn.init.orthogonal_(self.W_fh.weight)
            nn.init.orthogonal_(self.W_hf.weight)

    def initial_state(self, batch: int, like: Tensor) -> MrnnState:
        return MrnnState(like.new_zeros(batch, self.config.hidden))

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> None:
        """There is none."""

    def forward(
        self,
        x_TBD: Tensor,
        state: MrnnState | None = None,
        mask_TB: Tensor | None = None,
        noise: None = None,
    ) -> tuple[Hidden, MrnnState]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        over = [self.W_fx(x_TBD), self.W_hx(x_TBD)]
        (h_TBH,), state = unroll(self.step, over, state, mask_TB)
        return Hidden(h_TBH), state

    def step(
        self, state: MrnnState, scale_BF: Tensor, zx_BH: Tensor
    ) -> tuple[MrnnState, tuple[Tensor]]:
        """From h by way of the factors to h."""
        f_BF = scale_BF * self.W_fh(state.h_BH)
        h_BH = torch.tanh(self.W_hf(f_BF) + zx_BH).to(state.h_BH.dtype)
        return MrnnState(h_BH), (h_BH,)
