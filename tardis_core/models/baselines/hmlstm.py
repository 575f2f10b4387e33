"""HM-LSTM: layers that find boundaries and work at their own pace (Chung et al. 2016).

"Hierarchical Multiscale Recurrent Neural Networks" (arXiv 1609.01704), Eqs. (1) to (8). Layer l has
a boundary detector z. With s = U h_{t-1} + z_{t-1} V h_{t-1} of the layer above + z of the layer
below W h of the layer below + b:

    f, i, o = sigm(s),  g = tanh(s),  z = 1 if hardsigm(s) > 0.5 else 0

    UPDATE  c = f c + i g,  h = o tanh(c)     no boundary of its own, one below
    COPY    c and h stay                      neither
    FLUSH   c = i g,        h = o tanh(c)     a boundary of its own at the step before

The top layer has no detector, and below the first layer every step is a boundary. The step function
passes the gradient of hardsigm(s) = clip((a s + 1) / 2, 0, 1) straight through; its slope a grows
during training (slope annealing).

Letters: B batch, T time, D input, H hidden of a layer, L layers.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.errors import require
from tardis_core.models.base import MODELS, Hidden, SequenceModel, dropout_mask, unroll
from tardis_core.models.controller import LstmConfig
from tardis_core.settings import setting


@dataclass(frozen=True)
class HmLstmConfig(LstmConfig):
    """`hidden` is the size of one layer."""

    # A FLUSH leaves a small state, and layer normalisation divides its gradient by the size of the
    # pre-activations that come from it: at a gain of 1 the gradient grows by a tenth per step. A
    # small gain prevents it, as in batch-normalised LSTMs (Cooijmans et al. 2016).
    norm_gain: float = setting(0.1, "initial gain of layer normalisation")
    layers: int = setting(3, "number of layers (L)")
    final_slope: float = setting(
        5.0, "slope of the boundary detector at the end of the training; it starts at 1"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.layers >= 2, f"model.layers must be at least 2, not {self.layers}")
        slope = self.final_slope
        require(slope >= 1, f"model.final_slope must be at least 1, not {slope}")


class HmState(NamedTuple):
    """The layers, and their boundaries at the step before."""

    h_BLH: Tensor
    c_BLH: Tensor
    z_BM: Tensor  # M = L - 1


def step_function(s: Tensor, slope: Tensor) -> Tensor:
    """1 above zero and else 0, with the gradient of hardsigm."""
    soft = ((slope * s + 1) / 2).clamp(0, 1)
    hard = (soft > 0.5).to(soft.dtype)
    return hard + (soft - soft.detach())  # the bracket is exactly zero


class Layer(nn.Module):
    """One layer: its weights, and its step."""

    def __init__(self, inputs: int, model: HmLstmConfig, top: bool) -> None:
        super().__init__()
        H = model.hidden
        self.hidden, self.top = H, top
        rows = 4 * H + (0 if top else 1)
        self.U = nn.Linear(H if top else 2 * H, rows, bias=False)  # recurrent; top-down beside it
        self.W = nn.Linear(inputs, rows)  # bottom-up, and b
        gain = torch.full((4, H), model.norm_gain)
        self.gain = nn.Parameter(gain) if model.layer_norm else None
        self.shift = nn.Parameter(torch.zeros(4, H)) if model.layer_norm else None
        with torch.no_grad():
            for gate in range(4):
                nn.init.orthogonal_(self.U.weight[gate * H : (gate + 1) * H, :H])
            self.W.bias.zero_()
            if self.shift is not None:
                self.shift[0] = model.forget_bias
            else:
                self.W.bias[:H] = model.forget_bias

    def forward(
        self,
        recurrent_BR: Tensor,
        up_BR: Tensor,
        h_BH: Tensor,
        c_BH: Tensor,
        own_B1: Tensor | None,
        below_B1: Tensor | None,
        slope: Tensor,
        dropout_BH: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """One step.

        Args:
            recurrent_BR: U of the layer's own state and of that above.
            up_BR: W of the layer below, with the bias, gated by its boundary.
            own_B1: the layer's own boundary at the step before; None for the top layer.
            below_B1: the boundary below at this step; None for the first layer: always.

        Returns:
            h_BH, c_BH, and the boundary_B1 where there is a detector
        """
        s_BR = recurrent_BR + up_BR
        gates = self._normalise(s_BR[:, : 4 * self.hidden])
        f, i, o = torch.sigmoid(gates[:, :3]).unbind(1)
        g = torch.tanh(gates[:, 3])
        if dropout_BH is not None:
            g = g * dropout_BH
        written = i * g
        new_c = f * c_BH + written  # UPDATE
        if own_B1 is not None:
            new_c = own_B1 * written + (1 - own_B1) * new_c  # FLUSH
        new_h = o * torch.tanh(new_c)
        if below_B1 is not None:  # COPY where there is no boundary, neither here nor below
            moves = below_B1 if own_B1 is None else own_B1 + (1 - own_B1) * below_B1
            new_c = moves * new_c + (1 - moves) * c_BH
            new_h = moves * new_h + (1 - moves) * h_BH
        if self.top:
            return new_h, new_c, None
        detected_B1 = s_BR[:, 4 * self.hidden :].to(c_BH.dtype)
        return new_h, new_c, step_function(detected_B1, slope)

    def _normalise(self, s_BG: Tensor) -> Tensor:
        """Layer normalisation of each gate, B4H."""
        s_B4H = s_BG.unflatten(1, (4, self.hidden))
        if self.gain is None or self.shift is None:
            return s_B4H
        return F.layer_norm(s_B4H, (self.hidden,)) * self.gain + self.shift


@MODELS.register("hmlstm")
class HmLstm(SequenceModel):
    """HM-LSTM with the step function and slope annealing."""

    Config = HmLstmConfig
    config: HmLstmConfig
    slope: Tensor
    layers: Any  # a ModuleList of Layer

    def __init__(self, inputs: int, model: HmLstmConfig, memory: None, estimator: None) -> None:
        super().__init__()
        self.config = model
        top = model.layers - 1
        self.layers = nn.ModuleList(
            Layer(model.hidden if n else inputs, model, n == top) for n in range(model.layers)
        )
        self.output_gates = nn.Linear(model.layers * model.hidden, model.layers)
        self.register_buffer("slope", torch.ones(()))

    @property
    def output_width(self) -> int:
        return self.config.layers * self.config.hidden

    def initial_state(self, batch: int, like: Tensor) -> HmState:
        layers, hidden = self.config.layers, self.config.hidden
        zeros = like.new_zeros(batch, layers, hidden)
        return HmState(zeros, zeros, like.new_zeros(batch, layers - 1))

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> Tensor | None:
        shape = (*x_TBD.shape[:2], self.config.layers, self.config.hidden)
        return dropout_mask(shape, self.config.recurrent_dropout, x_TBD, generator)

    def forward(
        self,
        x_TBD: Tensor,
        state: HmState | None = None,
        mask_TB: Tensor | None = None,
        noise: Tensor | None = None,
    ) -> tuple[Hidden, HmState]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        over = [self.layers[0].W(x_TBD), noise]
        (h_TBLH,), state = unroll(self.step, over, state, mask_TB)
        # Eq. (11): how much of each layer is seen; its embedding W_l h is the output head's.
        g_TBL = torch.sigmoid(self.output_gates(h_TBLH.flatten(2)))
        return Hidden((g_TBL.unsqueeze(3) * h_TBLH).flatten(2)), state

    def step(
        self, state: HmState, up_BR: Tensor, dropout_BLH: Tensor | None
    ) -> tuple[HmState, tuple[Tensor]]:
        """The layers, from the first to the top."""
        h, c, z = state.h_BLH.unbind(1), state.c_BLH.unbind(1), state.z_BM.split(1, dim=1)
        new_h: list[Tensor] = []
        new_c: list[Tensor] = []
        new_z: list[Tensor] = []
        for n, layer in enumerate(self.layers):
            own_B1 = None if layer.top else z[n]
            heard = h[n] if own_B1 is None else torch.cat([h[n], own_B1 * h[n + 1]], dim=1)
            below_B1 = new_z[-1] if n else None
            if below_B1 is not None:
                up_BR = F.linear(below_B1 * new_h[-1], layer.W.weight, layer.W.bias)
            dropout_BH = None if dropout_BLH is None else dropout_BLH[:, n]
            h_BH, c_BH, z_B1 = layer(
                layer.U(heard), up_BR, h[n], c[n], own_B1, below_B1, self.slope, dropout_BH
            )
            new_h.append(h_BH)
            new_c.append(c_BH)
            if z_B1 is not None:
                new_z.append(z_B1)
        h_BLH = torch.stack(new_h, 1)
        return HmState(h_BLH, torch.stack(new_c, 1), torch.cat(new_z, 1)), (h_BLH,)

    def after_batch(self, hidden: Hidden, progress: float) -> None:
        """Slope annealing; forward the slope changes nothing."""
        # DEVIATION(sec. 3): over the whole training, not 0.04 an epoch for a hundred epochs.
        self.slope.fill_(1 + (self.config.final_slope - 1) * progress)
