"""Clockwork RNN: groups of units that tick at their own periods (Koutnik et al. 2014).

The hidden units are cut into groups with the periods 1, 2, 4, ... At step t, counted from 0, the
groups whose period divides t take a new value, the others keep theirs ("A Clockwork RNN", Eq. 1):

    h_t = tanh(W_H h_{t-1} + W_I x_t + b)

A group listens to itself and to the slower ones, so W_H is block upper triangular.

Letters: B batch, T time, D input, H hidden, G groups.
"""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.errors import require
from tardis_core.models.base import MODELS, Hidden, ModelConfig, SequenceModel, unroll
from tardis_core.settings import setting


@dataclass(frozen=True)
class ClockworkConfig(ModelConfig):
    """The clocks."""

    groups: int = setting(5, "groups of hidden units (G); the slowest has the period 2^(G - 1)")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            1 <= self.groups <= min(self.hidden, 31),
            "model.groups must be from 1 to 31 and at most model.hidden, "
            f"not {self.groups} with {self.hidden}",
        )


class ClockworkState(NamedTuple):
    """The hidden units, and the steps taken so far."""

    h_BH: Tensor
    steps_B: Tensor  # int64


@MODELS.register("clockwork")
class Clockwork(SequenceModel):
    """No gates: long memory comes from the slow groups."""

    Config = ClockworkConfig
    config: ClockworkConfig
    period_H: Tensor

    def __init__(self, inputs: int, model: ClockworkConfig, memory: None, estimator: None) -> None:
        super().__init__()
        self.config = model
        hidden = torch.arange(model.hidden).tensor_split(model.groups)
        firsts = itertools.accumulate([0, *map(len, hidden[:-1])])
        self.W_I = nn.Linear(inputs, model.hidden)
        # One block per group, from itself to the slowest: what is fixed to zero is no parameter.
        self.W_H = nn.ParameterList(
            torch.empty(len(units), model.hidden - first).uniform_(-1, 1)
            * (model.hidden - first) ** -0.5
            for units, first in zip(hidden, firsts, strict=True)
        )
        periods = [torch.full((len(units),), 2**n) for n, units in enumerate(hidden)]
        self.register_buffer("period_H", torch.cat(periods), persistent=False)

    def recurrent_weights(self) -> Tensor:
        """W_H with its zeros, H by H."""
        H = self.config.hidden
        return torch.cat([F.pad(block, (H - block.shape[1], 0)) for block in self.W_H])

    def initial_state(self, batch: int, like: Tensor) -> ClockworkState:
        steps_B = torch.zeros(batch, dtype=torch.int64, device=like.device)
        return ClockworkState(like.new_zeros(batch, self.config.hidden), steps_B)

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> None:
        """There is none."""

    def forward(
        self,
        x_TBD: Tensor,
        state: ClockworkState | None = None,
        mask_TB: Tensor | None = None,
        noise: None = None,
    ) -> tuple[Hidden, ClockworkState]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        W_HH = self.recurrent_weights()

        def step(state: ClockworkState, zx_BH: Tensor) -> tuple[ClockworkState, tuple[Tensor]]:
            ticks_BH = state.steps_B.unsqueeze(1) % self.period_H == 0
            new_BH = torch.tanh(F.linear(state.h_BH, W_HH) + zx_BH)
            h_BH = torch.where(ticks_BH, new_BH, state.h_BH)
            return ClockworkState(h_BH, state.steps_B + 1), (h_BH,)

        (h_TBH,), state = unroll(step, [self.W_I(x_TBD)], state, mask_TB)
        return Hidden(h_TBH), state
