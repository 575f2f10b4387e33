"""Batch-normalised LSTM (Cooijmans et al. 2016).

"Recurrent Batch Normalization" (arXiv 1603.09025), Eqs. (6) to (8):

    f, i, o, g = BN(W_h h) + BN(W_x x) + b
    c = sigm(f) c + sigm(i) tanh(g)
    h = sigm(o) tanh(BN(c))

In training BN takes mean and variance over the batch, separately per step. At evaluation it takes
those of the population, which are kept apart for the first steps of a sequence; later steps share
the last. DEVIATION(sec. 3): they are running averages over the batches of training, not a pass over
the training set when training is done.

Letters: B batch, T time, D input, H hidden, S steps with averages of their own, W = 9H: what is
normalised, W_h h (4H), W_x x (4H) and c (H), side by side.
"""

from dataclasses import dataclass
from typing import NamedTuple

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

EPSILON = 1e-5
RATE = 0.1  # of the running averages


@dataclass(frozen=True)
class BnLstmConfig(ModelConfig):
    """Batch normalisation takes the place of layer normalisation."""

    recurrent_dropout: float = setting(0.0, "dropout rate of the candidate cell state")
    forget_bias: float = setting(1.0, "initial bias of the forget gate")
    gain: float = setting(
        0.1, "initial gain of the normalised values; a large one saturates the gates"
    )
    population_steps: int = setting(
        100, "first time steps that have separate statistics at evaluation (S)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_rates(self, "recurrent_dropout")
        require(self.gain > 0, f"model.gain must be above 0, not {self.gain}")
        steps = self.population_steps
        require(steps >= 1, f"model.population_steps must be at least 1, not {steps}")


class BnState(NamedTuple):
    """The LSTM, and the steps taken so far, which choose the averages."""

    h_BH: Tensor
    c_BH: Tensor
    steps_B: Tensor  # int64


class BnNoise(NamedTuple):
    """Its presence says that this is training."""

    dropout_TBH: Tensor | None


class Moments(NamedTuple):
    """Mean and variance, by place."""

    mean: Tensor
    variance: Tensor


class Statistics(NamedTuple):
    """The statistics of a batch, one row per step of the sequences."""

    count_S: Tensor
    mean_SW: Tensor
    variance_SW: Tensor


def batch_moments(z_BW: Tensor, mask_B1: Tensor | None, axis: int = 0) -> Moments:
    """Over the sequences that have this step."""
    if mask_B1 is None:
        variance, mean = torch.var_mean(z_BW, axis, correction=0, keepdim=True)
        return Moments(mean, variance)
    weight = mask_B1.to(z_BW.dtype)
    share = weight / weight.sum(axis, keepdim=True).clamp_min(1)
    mean = (share * z_BW).sum(axis, keepdim=True)
    return Moments(mean, (share * (z_BW - mean).square()).sum(axis, keepdim=True))


def normalise(z: Tensor, moments: Moments, gain: Tensor) -> Tensor:
    """BN(z; gain), without a shift."""
    return (z - moments.mean) * (moments.variance + EPSILON).rsqrt() * gain


@MODELS.register("bnlstm")
class BnLstm(SequenceModel):
    """LSTM with batch normalisation of its recurrent, input and cell terms."""

    Config = BnLstmConfig
    config: BnLstmConfig
    mean_SW: Tensor
    variance_SW: Tensor
    seen_S: Tensor  # whether a step has averages

    def __init__(self, inputs: int, model: BnLstmConfig, memory: None, estimator: None) -> None:
        super().__init__()
        self.config = model
        H, S = model.hidden, model.population_steps
        self.parts = [4 * H, 4 * H, H]
        self.W_h = nn.Linear(H, 4 * H, bias=False)
        self.W_x = nn.Linear(inputs, 4 * H, bias=False)
        self.b = nn.Parameter(torch.zeros(4 * H))
        self.gain_W = nn.Parameter(torch.full((9 * H,), model.gain))
        self.shift_H = nn.Parameter(torch.zeros(H))  # of the cell
        with torch.no_grad():
            for gate in range(4):
                nn.init.orthogonal_(self.W_h.weight[gate * H : (gate + 1) * H])
            self.b[:H] = model.forget_bias
        self.register_buffer("mean_SW", torch.zeros(S, 9 * H))
        self.register_buffer("variance_SW", torch.ones(S, 9 * H))
        self.register_buffer("seen_S", torch.zeros(S, dtype=torch.bool))

    def initial_state(self, batch: int, like: Tensor) -> BnState:
        zeros = like.new_zeros(batch, self.config.hidden)
        return BnState(zeros, zeros, torch.zeros(batch, dtype=torch.int64, device=like.device))

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> BnNoise:
        shape = (*x_TBD.shape[:2], self.config.hidden)
        return BnNoise(dropout_mask(shape, self.config.recurrent_dropout, x_TBD, generator))

    def forward(
        self,
        x_TBD: Tensor,
        state: BnState | None = None,
        mask_TB: Tensor | None = None,
        noise: BnNoise | None = None,
    ) -> tuple[Hidden, BnState]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        zx_TBG = self.W_x(x_TBD)
        mask_TB1 = None if mask_TB is None else mask_TB.unsqueeze(2)
        if noise is None:
            (h_TBH,), state = unroll(self.evaluation_step, [zx_TBG], state, mask_TB)
            return Hidden(h_TBH), state
        gain_x = self.gain_W.split(self.parts)[1]
        normal_TBG = normalise(zx_TBG, batch_moments(zx_TBG, mask_TB1, 1), gain_x) + self.b
        over = [normal_TBG, mask_TB1, noise.dropout_TBH]
        (h, zh, c, steps_TB), state = unroll(self.training_step, over, state, mask_TB)
        activations = torch.cat([zh, zx_TBG, c], dim=2).detach()
        return Hidden(h, statistics=self._statistics(activations, steps_TB, mask_TB1)), state

    def training_step(
        self, state: BnState, x_BG: Tensor, mask_B1: Tensor | None, dropout_BH: Tensor | None
    ) -> tuple[BnState, tuple[Tensor, ...]]:
        """A step with the moments of the batch; `x_BG` is normalised already."""
        gain_h, _, gain_c = self.gain_W.split(self.parts)
        zh_BG = self.W_h(state.h_BH)
        z_BG = normalise(zh_BG, batch_moments(zh_BG, mask_B1), gain_h) + x_BG
        c_BH, o_BH = self._cell(z_BG, state.c_BH, dropout_BH)
        normal_BH = normalise(c_BH, batch_moments(c_BH, mask_B1), gain_c) + self.shift_H
        h_BH = o_BH * torch.tanh(normal_BH)
        return BnState(h_BH, c_BH, state.steps_B + 1), (h_BH, zh_BG, c_BH, state.steps_B)

    def evaluation_step(self, state: BnState, zx_BG: Tensor) -> tuple[BnState, tuple[Tensor]]:
        """A step with the moments of the population."""
        gain_h, gain_x, gain_c = self.gain_W.split(self.parts)
        row_B = state.steps_B.clamp_max(self.config.population_steps - 1)
        means = self.mean_SW[row_B].split(self.parts, dim=1)
        variances = self.variance_SW[row_B].split(self.parts, dim=1)
        of_h, of_x, of_c = map(Moments, means, variances)
        zh_BG = self.W_h(state.h_BH)
        z_BG = normalise(zh_BG, of_h, gain_h) + normalise(zx_BG, of_x, gain_x) + self.b
        c_BH, o_BH = self._cell(z_BG, state.c_BH, None)
        h_BH = o_BH * torch.tanh(normalise(c_BH, of_c, gain_c) + self.shift_H)
        return BnState(h_BH, c_BH, state.steps_B + 1), (h_BH,)

    def _cell(self, z_BG: Tensor, c_BH: Tensor, dropout_BH: Tensor | None) -> tuple[Tensor, Tensor]:
        """The new cell, and the output gate."""
        H = self.config.hidden
        f, i, o = torch.sigmoid(z_BG[:, : 3 * H]).chunk(3, dim=1)
        g = torch.tanh(z_BG[:, 3 * H :])
        if dropout_BH is not None:
            g = g * dropout_BH
        return f * c_BH + i * g, o

    def _statistics(
        self, made_TBW: Tensor, steps_TB: Tensor, mask_TB1: Tensor | None
    ) -> Statistics:
        """Mean and variance of all that the batch had at each step of its sequences."""
        S = self.config.population_steps
        row_N = steps_TB.clamp_max(S - 1).flatten()
        values_NW = made_TBW.flatten(0, 1)
        weight_N = values_NW.new_ones(len(row_N))
        if mask_TB1 is not None:
            weight_N = mask_TB1.flatten().to(values_NW.dtype)
        count_S = weight_N.new_zeros(S).index_add(0, row_N, weight_N)
        divisor_S1 = count_S.clamp_min(1).unsqueeze(1)
        zeros_SW = values_NW.new_zeros(S, values_NW.shape[1])
        weighted_NW = weight_N.unsqueeze(1) * values_NW
        mean_SW = zeros_SW.index_add(0, row_N, weighted_NW) / divisor_S1
        square_SW = zeros_SW.index_add(0, row_N, weighted_NW * values_NW) / divisor_S1
        return Statistics(count_S, mean_SW, (square_SW - mean_SW.square()).clamp_min(0))

    @torch.no_grad()
    def after_batch(self, hidden: Hidden, progress: float) -> None:
        """Move the averages of the steps that the batch had towards its own."""
        statistics: Statistics | None = hidden.statistics
        if statistics is None:
            return
        here_S = statistics.count_S > 0
        # A step that was never seen takes the batch's statistics as they are.
        rate_S = torch.where(self.seen_S, RATE, 1.0) * here_S
        rate_S1 = rate_S.unsqueeze(1).to(self.mean_SW.dtype)
        self.mean_SW.lerp_(statistics.mean_SW.to(self.mean_SW.dtype), rate_S1)
        self.variance_SW.lerp_(statistics.variance_SW.to(self.mean_SW.dtype), rate_S1)
        self.seen_S |= here_S
