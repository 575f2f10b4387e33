"""The LSTM controller with its RESET gates; with no memory to read it is the LSTM baseline.

Letters: B batch, D input, H hidden, Q width of what is read. Gates stand in the order f, i, o, g.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.errors import require
from tardis_core.models.base import ModelConfig, dropout_mask, require_rates
from tardis_core.settings import setting

RESET_TEMPERATURE = 0.3
RESET_GATES = 2  # alpha, beta


@dataclass(frozen=True)
class LstmConfig(ModelConfig):
    """The settings that all models based on an LSTM share."""

    layer_norm: bool = setting(
        False, "whether the pre-activations of the gates are layer-normalised"
    )
    norm_gain: float = setting(
        1.0,
        "initial gain of layer normalisation; with small ones the gradient of a long sequence "
        "does not grow on its way back",
    )
    recurrent_dropout: float = setting(
        0.0, "dropout rate of the candidate cell state, which loses no memory"
    )
    forget_bias: float = setting(
        1.0, "initial bias of the forget gate; positive values remember longer"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_rates(self, "recurrent_dropout")
        require(self.norm_gain > 0, f"model.norm_gain must be above 0, not {self.norm_gain}")


class ControllerState(NamedTuple):
    """The hidden state and the cell of the LSTM."""

    h_BH: Tensor
    c_BH: Tensor

    @classmethod
    def empty(cls, batch: int, hidden: int, like: Tensor) -> "ControllerState":
        """Before the first step, on the device and in the type of `like`."""
        zeros = like.new_zeros(batch, hidden)
        return cls(zeros, zeros)


def recurrent_dropout(
    config: LstmConfig, x_TBD: Tensor, generator: torch.Generator
) -> Tensor | None:
    """The mask on the candidate for a whole sequence (Semeniuta et al. 2016), if there is one."""
    shape = (*x_TBD.shape[:2], config.hidden)
    return dropout_mask(shape, config.recurrent_dropout, x_TBD, generator)


def gumbel_sigmoid(logit: Tensor, noise: Tensor | None) -> Tensor:
    """Eq. (8): sigmoid((logit + logistic noise) / 0.3), without noise at evaluation."""
    noisy = logit if noise is None else logit + noise
    return torch.sigmoid(noisy / RESET_TEMPERATURE)


class Controller(nn.Module):
    """Eqs. (7) to (10).

        f, i, o     = sigm(W_h h + W_x x + W_r r)
        alpha, beta = gumbel-sigmoid(w_h . h + w_x . x + w_r . r)
        g           = tanh(beta W_h h + W_x x + alpha W_r r)
        c           = f c + i g
        h           = o tanh(c)

    One matrix per source (h, x, r) holds the rows of all gates and, last, of alpha and beta.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        read_width: int = 0,
        *,
        reset_gates: bool = False,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        forget_bias: float = 1.0,
        reset_bias: float = 1.0,
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.reset_gates = reset_gates
        rows = 4 * hidden + (RESET_GATES if reset_gates else 0)
        self.W_h = nn.Linear(hidden, rows, bias=False)
        self.W_x = nn.Linear(inputs, rows, bias=False)
        self.W_r = nn.Linear(read_width, rows, bias=False) if read_width else None
        self.b = nn.Parameter(torch.zeros(rows))
        self.gain = nn.Parameter(torch.full((4, hidden), norm_gain)) if layer_norm else None
        self._initialise(forget_bias, reset_bias)

    @classmethod
    def of(cls, config: LstmConfig, inputs: int, read_width: int = 0) -> "Controller":
        """As the settings of a model have it, without RESET gates."""
        return cls(
            inputs,
            config.hidden,
            read_width,
            layer_norm=config.layer_norm,
            norm_gain=config.norm_gain,
            forget_bias=config.forget_bias,
        )

    @torch.no_grad()
    def _initialise(self, forget_bias: float, reset_bias: float) -> None:
        H = self.hidden
        for gate in range(4):
            nn.init.orthogonal_(self.W_h.weight[gate * H : (gate + 1) * H])
        self.b[:H] = forget_bias
        self.b[4 * H :] = reset_bias

    def project_inputs(self, x_TBD: Tensor) -> Tensor:
        """W_x x + b of a whole sequence: what does not depend on the step before.

        With layer normalisation the bias of the gates comes after it (see `_normalise`).
        """
        b_G: Tensor = self.b
        if self.gain is not None:
            b_G = torch.cat([torch.zeros_like(b_G[: 4 * self.hidden]), b_G[4 * self.hidden :]])
        return F.linear(x_TBD, self.W_x.weight, b_G)

    def forward(
        self,
        zx_BG: Tensor,
        r_BQ: Tensor | None,
        state: ControllerState,
        reset_noise_B2: Tensor | None = None,
        dropout_BH: Tensor | None = None,
    ) -> tuple[ControllerState, Tensor | None]:
        """One step.

        Args:
            zx_BG: this step of `project_inputs`.
            r_BQ: what was read, or None for the LSTM baseline.
            reset_noise_B2: logistic noise of alpha and beta.
            dropout_BH: this step of `recurrent_dropout`.

        Returns:
            the new state, and (alpha, beta)_B2 where there are RESET gates
        """
        zh_BG = self.W_h(state.h_BH)
        zr_BG = self.W_r(r_BQ) if self.W_r is not None else None
        z_B3H, z_BH, reset_B2 = self._combine(zh_BG, zx_BG, zr_BG, reset_noise_B2)
        if self.gain is not None:
            z_B3H, z_BH = self._normalise(z_B3H, 0), self._normalise(z_BH, 3)
        f, i, o = torch.sigmoid(z_B3H).chunk(3, dim=1)
        g = torch.tanh(z_BH)
        if dropout_BH is not None:
            g = g * dropout_BH
        c_BH = f * state.c_BH + i * g
        h_BH = o * torch.tanh(c_BH)
        return ControllerState(h_BH, c_BH), reset_B2

    def _combine(
        self, zh_BG: Tensor, zx_BG: Tensor, zr_BG: Tensor | None, noise_B2: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The pre-activations of f, i, o, that of g, and the RESET gates inside the latter."""
        H = self.hidden
        if not self.reset_gates or zr_BG is None:
            z_BG = zh_BG + zx_BG if zr_BG is None else zh_BG + zx_BG + zr_BG
            gates_B3H, candidate_BH = z_BG.split([3 * H, H], dim=1)
            return gates_B3H, candidate_BH, None
        blocks = [3 * H, H, RESET_GATES]
        h_gates, h_candidate, h_reset = zh_BG.split(blocks, dim=1)
        x_gates, x_candidate, x_reset = zx_BG.split(blocks, dim=1)
        r_gates, r_candidate, r_reset = zr_BG.split(blocks, dim=1)
        reset_B2 = gumbel_sigmoid(h_reset + x_reset + r_reset, noise_B2)
        alpha_B1, beta_B1 = reset_B2.split(1, dim=1)
        gates_B3H = h_gates + x_gates + r_gates
        candidate_BH = beta_B1 * h_candidate + x_candidate + alpha_B1 * r_candidate
        return gates_B3H, candidate_BH, reset_B2

    def _normalise(self, z: Tensor, first: int) -> Tensor:
        """Layer normalisation of each gate's pre-activation (Ba et al. 2016), from gate `first` on.

        DEVIATION(eqs 7 to 10): the bias is added after it; before, centring would take a part of
        it away.
        """
        assert self.gain is not None
        z_BNH = z.unflatten(1, (-1, self.hidden))
        gates = slice(first, first + z_BNH.shape[1])
        b_NH = self.b[: 4 * self.hidden].unflatten(0, (4, self.hidden))[gates]
        return (F.layer_norm(z_BNH, (self.hidden,)) * self.gain[gates] + b_NH).flatten(1)
