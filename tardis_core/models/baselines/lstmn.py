"""LSTMN: an LSTM that attends to its own past states (Cheng, Dong, Lapata 2016).

"Long Short-Term Memory-Networks for Machine Reading" (arXiv 1601.06733), Eqs. (4) to (9). The
hidden states and the cells of past steps i are kept on two tapes. With ~ for what is read:

    a_i = v . tanh(W_h h_i + W_x x_t + W_~ ~h_{t-1}),  s = softmax(a)
    ~h_t = sum_i s_i h_i,  ~c_t = sum_i s_i c_i
    f, i, o, g = sigm, sigm, sigm, tanh of W [~h_t, x_t]
    c_t = f ~c_t + i g,  h_t = o tanh(c_t)

so each step is one of the LSTM that starts at ~h and ~c.

DEVIATION(tapes): they hold the last K steps, so that a text of any length can be read.

Letters: B batch, T time, D input, H hidden, K steps on the tapes, P width of the attention.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tardis_core.errors import require
from tardis_core.models.base import MODELS, Hidden, SequenceModel, unroll
from tardis_core.models.controller import Controller, ControllerState, LstmConfig, recurrent_dropout
from tardis_core.settings import setting


@dataclass(frozen=True)
class LstmnConfig(LstmConfig):
    """The tapes."""

    span: int = setting(32, "number of past steps that are attended to (K)")
    attention: int = setting(32, "width of the attention's hidden layer (P)")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("span", "attention"):
            value = getattr(self, name)
            require(value >= 1, f"model.{name} must be at least 1, not {value}")


class LstmnState(NamedTuple):
    """The tapes, the newest step last, and what was read last."""

    h_BKH: Tensor
    c_BKH: Tensor
    key_BKP: Tensor  # W_h h_i, computed once
    kept_BK: Tensor  # 1.0 where the tapes hold a step
    read_BH: Tensor  # ~h


@MODELS.register("lstmn")
class Lstmn(SequenceModel):
    """The attention replaces the step before by a mixture of past steps."""

    Config = LstmnConfig
    config: LstmnConfig

    def __init__(self, inputs: int, model: LstmnConfig, memory: None, estimator: None) -> None:
        super().__init__()
        self.config = model
        H, P = model.hidden, model.attention
        self.controller = Controller.of(model, inputs)
        self.W_h = nn.Linear(H, P, bias=False)
        self.W_x = nn.Linear(inputs, P)
        self.W_read = nn.Linear(H, P, bias=False)
        self.v = nn.Parameter(torch.randn(P) * P**-0.5)

    def initial_state(self, batch: int, like: Tensor) -> LstmnState:
        K, H = self.config.span, self.config.hidden
        tape_BKH = like.new_zeros(batch, K, H)
        return LstmnState(
            tape_BKH,
            tape_BKH,
            like.new_zeros(batch, K, self.config.attention),
            like.new_zeros(batch, K),
            like.new_zeros(batch, H),
        )

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> Tensor | None:
        return recurrent_dropout(self.config, x_TBD, generator)

    def forward(
        self,
        x_TBD: Tensor,
        state: LstmnState | None = None,
        mask_TB: Tensor | None = None,
        noise: Tensor | None = None,
    ) -> tuple[Hidden, LstmnState]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        over = [self.controller.project_inputs(x_TBD), self.W_x(x_TBD), noise]
        (h_TBH,), state = unroll(self.step, over, state, mask_TB)
        return Hidden(h_TBH), state

    def step(
        self, state: LstmnState, zx_BG: Tensor, query_BP: Tensor, dropout_BH: Tensor | None
    ) -> tuple[LstmnState, tuple[Tensor]]:
        """Attend, take a step of the LSTM, keep it on the tapes."""
        s_BK = self._attend(state, query_BP).unsqueeze(1)
        read_BH = torch.bmm(s_BK, state.h_BKH).squeeze(1).to(state.read_BH.dtype)
        cell_BH = torch.bmm(s_BK, state.c_BKH).squeeze(1).to(state.read_BH.dtype)
        read = ControllerState(read_BH, cell_BH)
        new, _ = self.controller(zx_BG, None, read, dropout_BH=dropout_BH)
        after = LstmnState(
            push(state.h_BKH, new.h_BH),
            push(state.c_BKH, new.c_BH),
            push(state.key_BKP, self.W_h(new.h_BH).to(state.key_BKP.dtype)),
            push(state.kept_BK, torch.ones_like(state.kept_BK[:, 0])),
            read_BH,
        )
        return after, (new.h_BH,)

    def _attend(self, state: LstmnState, query_BP: Tensor) -> Tensor:
        """s_BK; all zero before the first step."""
        query_BP = query_BP + self.W_read(state.read_BH)
        a_BK = torch.tanh(state.key_BKP + query_BP.unsqueeze(1)) @ self.v
        # A finite value: a softmax over nothing but minus infinity is not a number.
        a_BK = a_BK.masked_fill(state.kept_BK == 0, torch.finfo(a_BK.dtype).min)
        return torch.softmax(a_BK, dim=1).to(state.kept_BK.dtype) * state.kept_BK


def push(tape: Tensor, new: Tensor) -> Tensor:
    """The tape without its oldest step, with the new one at the end."""
    return torch.cat([tape[:, 1:], new.unsqueeze(1)], dim=1)
