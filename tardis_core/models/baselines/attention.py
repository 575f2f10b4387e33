"""Word-by-word attention: the second of two texts is read with a view of the first.

Rocktaeschel, Grefenstette, Hermann, Kocisky, Blunsom 2015, "Reasoning about Entailment with Neural
Attention" (arXiv 1509.06664), sections 2.2 to 2.4. One LSTM reads the premise; its outputs are Y.
Another, which starts from the first one's cell, reads the hypothesis. At each of its steps, Eqs.
(11) to (13) and (10):

    M_t = tanh(W_y Y + W_h h_t + W_r r_{t-1})       alpha_t = softmax(w . M_t)
    r_t = Y^T alpha_t + tanh(W_t r_{t-1})           h*_t = tanh(W_p r_t + W_x h_t)

The output head sees h*. While the premise is read there is no r: h* = tanh(W_x h). The task says
which input ends the first text; that input is the first of the second text.

Letters: B batch, T time, D input, H hidden, S places of the first text, L those kept in the state.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tardis_core.errors import require
from tardis_core.models.base import MODELS, Hidden, SequenceModel, unroll
from tardis_core.models.controller import Controller, ControllerState, LstmConfig, recurrent_dropout
from tardis_core.settings import setting

HIDDEN_PLACE = -1e9  # score of a place that is not there: its weight is exactly zero


@dataclass(frozen=True)
class AttentionConfig(LstmConfig):
    """The two LSTMs share these settings, not their weights."""

    longest: int = setting(100, "steps of the first text that can be attended to (L)")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.longest >= 1, f"model.longest must be at least 1, not {self.longest}")


class Places(NamedTuple):
    """Vectors of a text, and which of them there are."""

    y_BSH: Tensor
    there_BS: Tensor  # bool


class Kept(NamedTuple):
    """The same from step to step: those that there are come first."""

    y_BLH: Tensor
    count_B: Tensor  # int64


class AttentionState(NamedTuple):
    """All that goes from one step to the next."""

    lstm: ControllerState  # of the first LSTM until the first text ends, then of the second
    r_BH: Tensor
    first: Kept  # Y
    second_B: Tensor  # int64: 1 where the second text has begun


class AttentionNoise(NamedTuple):
    """Recurrent dropout of the first and of the second LSTM."""

    first_TBH: Tensor | None
    second_TBH: Tensor | None


class Parts(NamedTuple):
    """Which steps belong to which text."""

    first_TB: Tensor  # bool, as are the others
    second_TB: Tensor
    begun_TB: Tensor  # the second text has begun, whether the step exists or not


def nothing_kept(batch: int, longest: int, width: int, like: Tensor) -> Kept:
    """Before the first step."""
    count_B = torch.zeros(batch, dtype=torch.int64, device=like.device)
    return Kept(like.new_zeros(batch, longest, width), count_B)


def join(kept: Kept | None, new_TBH: Tensor, new_TB: Tensor, longest: int) -> Places:
    """What was kept and what came now; beyond `longest` nothing is taken in."""
    places = Places(new_TBH.transpose(0, 1), new_TB.T)
    if kept is not None:
        before_BL = torch.arange(longest, device=new_TB.device) < kept.count_B.unsqueeze(1)
        places = Places(
            torch.cat([kept.y_BLH, places.y_BSH], 1), torch.cat([before_BL, places.there_BS], 1)
        )
    return places._replace(there_BS=places.there_BS & (places.there_BS.cumsum(1) <= longest))


def keep(places: Places, longest: int) -> Kept:
    """Those that there are, in their order, at the front of `longest` places."""
    order_BS = torch.argsort(places.there_BS.logical_not().byte(), dim=1, stable=True)
    order_BS = order_BS[:, :longest]
    front = places.y_BSH.gather(1, order_BS.unsqueeze(2).expand(-1, -1, places.y_BSH.shape[2]))
    front = front * places.there_BS.gather(1, order_BS).unsqueeze(2)
    missing = longest - front.shape[1]
    return Kept(torch.nn.functional.pad(front, (0, 0, 0, missing)), places.there_BS.sum(1))


class Attend(nn.Module):
    """The recurrence of r over the steps of one text, with a view of the other."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.W_y = nn.Linear(hidden, hidden, bias=False)
        self.W_h = nn.Linear(hidden, hidden, bias=False)
        self.W_r = nn.Linear(hidden, 2 * hidden, bias=False)  # W_r and W_t
        self.w = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))
        self.W_p = nn.Linear(hidden, hidden, bias=False)
        self.W_x = nn.Linear(hidden, hidden, bias=False)

    def forward(
        self, h_TBH: Tensor, mask_TB: Tensor, other: Places, r_BH: Tensor
    ) -> tuple[Tensor, Tensor]:
        """r_TBH of every step, and the last one; where the mask is False r stays."""
        keys_BSH = self.W_y(other.y_BSH)
        there_BS = other.there_BS

        def step(r_BH: Tensor, query_BH: Tensor) -> tuple[Tensor, tuple[Tensor]]:
            heard_BH, kept_BH = self.W_r(r_BH).chunk(2, dim=1)
            m_BSH = torch.tanh(keys_BSH + (query_BH + heard_BH).unsqueeze(1))
            score_BS = (m_BSH @ self.w.to(m_BSH.dtype)).masked_fill(~there_BS, HIDDEN_PLACE)
            alpha_BS = torch.softmax(score_BS.to(r_BH.dtype), dim=1) * there_BS
            seen_BH = torch.bmm(alpha_BS.unsqueeze(1), other.y_BSH).squeeze(1)
            new_BH = (seen_BH + torch.tanh(kept_BH)).to(r_BH.dtype)
            return new_BH, (new_BH,)

        (r_TBH,), r_BH = unroll(step, [self.W_h(h_TBH)], r_BH, mask_TB)
        return r_TBH, r_BH

    def combine(self, r: Tensor, h: Tensor) -> Tensor:
        """h* = tanh(W_p r + W_x h)"""
        return torch.tanh(self.W_p(r) + self.W_x(h))


def read(
    controller: Controller,
    x_TBD: Tensor,
    state: ControllerState,
    mask_TB: Tensor,
    dropout_TBH: Tensor | None,
) -> tuple[Tensor, Tensor, ControllerState]:
    """Run an LSTM over the steps of one text: h_TBH, c_TBH and the last state."""

    def step(
        state: ControllerState, zx_BG: Tensor, dropout_BH: Tensor | None
    ) -> tuple[ControllerState, ControllerState]:
        new, _ = controller(zx_BG, None, state, dropout_BH=dropout_BH)
        return new, new

    (h, c), state = unroll(step, [controller.project_inputs(x_TBD), dropout_TBH], state, mask_TB)
    return h, c, state


@MODELS.register("attention")
class Attention(SequenceModel):
    """Two LSTMs, the second with attention to the outputs of the first."""

    Config = AttentionConfig
    config: AttentionConfig
    two_parts = True

    def __init__(self, inputs: int, model: AttentionConfig, memory: None, estimator: None) -> None:
        super().__init__()
        self.config = model
        self.first, self.second = (Controller.of(model, inputs) for _ in range(2))
        self.attend = Attend(model.hidden)

    def initial_state(self, batch: int, like: Tensor) -> AttentionState:
        zeros = like.new_zeros(batch, self.config.hidden)
        kept = nothing_kept(batch, self.config.longest, self.config.hidden, like)
        second_B = torch.zeros(batch, dtype=torch.int64, device=like.device)
        return AttentionState(ControllerState(zeros, zeros), zeros, kept, second_B)

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> AttentionNoise:
        return AttentionNoise(*(recurrent_dropout(self.config, x_TBD, generator) for _ in range(2)))

    def forward(
        self,
        x_TBD: Tensor,
        state: AttentionState | None = None,
        mask_TB: Tensor | None = None,
        noise: AttentionNoise | None = None,
        boundary_TB: Tensor | None = None,
        asked_TB: Tensor | None = None,
    ) -> tuple[Hidden, AttentionState]:
        """As for every model.

        Args:
            boundary_TB: True at the inputs that end the first text.
            asked_TB: True where the output is wanted; here it is the same work for all.
        """
        fresh = state is None
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        parts = self.parts(state.second_B, boundary_TB, mask_TB, x_TBD)
        dropout = noise or AttentionNoise(None, None)
        h1, _, after = read(self.first, x_TBD, state.lstm, parts.first_TB, dropout.first_TBH)
        # The second LSTM takes over the cell alone, unless it has begun already.
        begun_B1 = state.second_B.bool().unsqueeze(1)
        start = ControllerState(after.h_BH * begun_B1, after.c_BH)
        h2, _, end = read(self.second, x_TBD, start, parts.second_TB, dropout.second_TBH)
        h_TBH = torch.where(parts.begun_TB.unsqueeze(2), h2, h1)

        first = join(None if fresh else state.first, h1, parts.first_TB, self.config.longest)
        r_TBH, r_BH = self.attend(h_TBH, parts.second_TB, first, state.r_BH)
        seen_TBH = r_TBH * parts.begun_TB.unsqueeze(2)
        second_B = parts.begun_TB[-1]
        lstm = ControllerState(torch.where(second_B.unsqueeze(1), end.h_BH, after.h_BH), end.c_BH)
        combined = Hidden(self.attend.combine(seen_TBH, h_TBH))
        return combined, AttentionState(
            lstm, r_BH, keep(first, self.config.longest), second_B.long()
        )

    @staticmethod
    def parts(
        second_B: Tensor, boundary_TB: Tensor | None, mask_TB: Tensor | None, x_TBD: Tensor
    ) -> Parts:
        """The steps of the first and of the second text."""
        shape, device = x_TBD.shape[:2], x_TBD.device
        live = torch.ones(shape, dtype=torch.bool, device=device) if mask_TB is None else mask_TB
        begun = second_B.bool().expand(shape)
        if boundary_TB is not None:
            begun = begun | ((boundary_TB & live).cumsum(0) > 0)
        return Parts(live & ~begun, live & begun, begun)
