"""Two-way word-by-word attention: each of two texts is read with a view of the other.

Rocktaeschel et al. 2015, section 2.5: the model of `attention.py`, and again with the texts
exchanged and the same weights. The head sees both h* side by side. What the exchanged reading says
at a step is what it would say if the second text ended there: the first LSTM has read the second
text so far, and the second LSTM reads the whole first text with attention to it. As this is a whole
reading a step, it is done only where the output is asked for.

Letters: those of `attention.py`; N asked outputs, P the longest first text.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from tardis_core.models.base import MODELS, Hidden, SequenceModel
from tardis_core.models.baselines.attention import (
    Attention,
    AttentionConfig,
    AttentionNoise,
    AttentionState,
    Kept,
    Places,
    join,
    keep,
    nothing_kept,
    read,
)
from tardis_core.models.controller import ControllerState


class TwoWayState(NamedTuple):
    """The state of the reading in order, and what the exchanged one has to know."""

    ahead: AttentionState
    inputs: Kept  # of the first text
    lstm: ControllerState  # of the first LSTM, over the second text
    second: Kept  # its outputs


@MODELS.register("attention-two-way")
class TwoWayAttention(SequenceModel):
    """Word-by-word attention in both directions."""

    Config = AttentionConfig
    config: AttentionConfig
    two_parts = True

    def __init__(self, inputs: int, model: AttentionConfig, memory: None, estimator: None) -> None:
        super().__init__()
        self.config, self.inputs = model, inputs
        self.one_way = Attention(inputs, model, memory, estimator)

    @property
    def output_width(self) -> int:
        return 2 * self.config.hidden

    def initial_state(self, batch: int, like: Tensor) -> TwoWayState:
        longest, hidden = self.config.longest, self.config.hidden
        return TwoWayState(
            self.one_way.initial_state(batch, like),
            nothing_kept(batch, longest, self.inputs, like),
            ControllerState.empty(batch, hidden, like),
            nothing_kept(batch, longest, hidden, like),
        )

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> AttentionNoise:
        """That of the reading in order: the exchanged one meets the steps it leaves out."""
        return self.one_way.draw_noise(x_TBD, generator)

    def forward(
        self,
        x_TBD: Tensor,
        state: TwoWayState | None = None,
        mask_TB: Tensor | None = None,
        noise: AttentionNoise | None = None,
        boundary_TB: Tensor | None = None,
        asked_TB: Tensor | None = None,
    ) -> tuple[Hidden, TwoWayState]:
        fresh = state is None
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        ahead, ahead_state = self.one_way(
            x_TBD, None if fresh else state.ahead, mask_TB, noise, boundary_TB
        )
        parts = self.one_way.parts(state.ahead.second_B, boundary_TB, mask_TB, x_TBD)
        longest, dropout = self.config.longest, noise or AttentionNoise(None, None)
        inputs = join(None if fresh else state.inputs, x_TBD, parts.first_TB, longest)
        h, c, lstm = read(self.one_way.first, x_TBD, state.lstm, parts.second_TB, dropout.first_TBH)
        second = join(None if fresh else state.second, h, parts.second_TB, longest)

        asked_TB = parts.second_TB if asked_TB is None else parts.second_TB & asked_TB
        t_N, b_N = asked_TB.nonzero(as_tuple=True)
        h_TBH = torch.zeros_like(ahead.h_TBH)
        if len(t_N):
            until_N = t_N + second.y_BSH.shape[1] - len(x_TBD)  # the place of the step itself
            there_NS = torch.arange(second.y_BSH.shape[1], device=x_TBD.device) <= until_N[:, None]
            view = Places(second.y_BSH[b_N], second.there_BS[b_N] & there_NS)
            masks = self._dropout_of_places(inputs, dropout.second_TBH)
            exchanged_NH = self._exchanged(inputs, masks, b_N, c[t_N, b_N], view)
            h_TBH = h_TBH.index_put((t_N, b_N), exchanged_NH.to(h_TBH.dtype))
        combined = Hidden(torch.cat([ahead.h_TBH, h_TBH], dim=2))
        kept = keep(inputs, longest), lstm, keep(second, longest)
        return combined, TwoWayState(ahead_state, *kept)

    def _exchanged(
        self,
        inputs: Places,
        dropout_BSH: Tensor | None,
        b_N: Tensor,
        c_NH: Tensor,
        view: Places,
    ) -> Tensor:
        """h* at the end of the first text, read from the cells c with a view of the second."""
        count_B = inputs.there_BS.sum(1)
        steps = max(1, int(count_B[b_N].max()))
        x_PND = keep(inputs, steps).y_BLH[b_N].transpose(0, 1)
        here_PN = torch.arange(steps, device=b_N.device)[:, None] < count_B[b_N]
        dropout_PNH = None
        if dropout_BSH is not None:
            masks = keep(Places(dropout_BSH, inputs.there_BS), steps)
            dropout_PNH = masks.y_BLH[b_N].transpose(0, 1)
        zeros = torch.zeros_like(c_NH)
        h_PNH, _, end = read(
            self.one_way.second, x_PND, ControllerState(zeros, c_NH), here_PN, dropout_PNH
        )
        _, r_NH = self.one_way.attend(h_PNH, here_PN, view, zeros)
        return self.one_way.attend.combine(r_NH, end.h_BH)

    @staticmethod
    def _dropout_of_places(inputs: Places, mask_TBH: Tensor | None) -> Tensor | None:
        """The mask of each place of the first text; what was kept from before has none."""
        if mask_TBH is None:
            return None
        mask_BTH = mask_TBH.transpose(0, 1)
        kept = inputs.y_BSH.shape[1] - mask_BTH.shape[1]
        return torch.nn.functional.pad(mask_BTH, (0, 0, kept, 0), value=1.0)
