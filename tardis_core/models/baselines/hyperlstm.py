"""HyperLSTM: a small LSTM that scales the weights of a large one, step by step (Ha et al. 2016).

The small one sees x_t and h_{t-1}. From its state ĥ come, for each gate y of f, i, o, g,

    z_h = W_hh ĥ + b_hh,   z_x = W_hx ĥ + b_hx,   z_b = W_hb ĥ
    d_h = W_hz z_h,        d_x = W_xz z_x,        b = W_bz z_b + b_0
    y   = LN(d_h W_h h + d_x W_x x + b)

and then c = sigm(f) c + sigm(i) tanh(g), h = sigm(o) tanh(LN(c)): the HyperLSTM of "HyperNetworks"
(arXiv 1609.09106). Recurrent dropout is on tanh(g), as in the paper.

DEVIATION(z): the paper writes ĥ_{t-1}; here it is ĥ_t, which has seen x_t, as in the code of its
first author.

Letters: B batch, T time, D input, H hidden, N hidden of the small LSTM, Z its embedding.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.errors import require
from tardis_core.models.base import MODELS, Hidden, SequenceModel, unroll
from tardis_core.models.controller import Controller, ControllerState, LstmConfig, recurrent_dropout
from tardis_core.settings import setting

GATES = 4  # f, i, o, g
SOURCES = 3  # h, x, b
INITIAL_SCALE = 0.1  # of d_h and d_x


@dataclass(frozen=True)
class HyperConfig(LstmConfig):
    """The small LSTM; the paper's is 128 units and an embedding of 16 beside 1000 units."""

    layer_norm: bool = setting(True, "whether the gates of both LSTMs are layer-normalised")
    hyper_hidden: int = setting(64, "hidden units of the small LSTM that scales the weights (N)")
    hyper_embedding: int = setting(8, "width of the vectors between the two LSTMs (Z)")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hyper_hidden", "hyper_embedding"):
            value = getattr(self, name)
            require(value >= 1, f"model.{name} must be at least 1, not {value}")


class HyperState(NamedTuple):
    """Both LSTMs."""

    main: ControllerState
    hyper: ControllerState


@MODELS.register("hyperlstm")
class HyperLstm(SequenceModel):
    """LSTM whose rows are scaled by another, with layer normalisation."""

    Config = HyperConfig
    config: HyperConfig

    def __init__(self, inputs: int, model: HyperConfig, memory: None, estimator: None) -> None:
        super().__init__()
        self.config = model
        H, N, Z = model.hidden, model.hyper_hidden, model.hyper_embedding
        # h of the large LSTM is what the small one "reads".
        self.hyper = Controller(
            inputs,
            N,
            H,
            layer_norm=model.layer_norm,
            norm_gain=model.norm_gain,
            forget_bias=model.forget_bias,
        )
        self.W_h = nn.Linear(H, GATES * H, bias=False)
        self.W_x = nn.Linear(inputs, GATES * H, bias=False)
        self.W_z = nn.Linear(N, SOURCES * GATES * Z)  # W_hh, W_hx, W_hb
        self.W_d = nn.Parameter(torch.empty(SOURCES * GATES, Z, H))  # W_hz, W_xz, W_bz
        self.b = nn.Parameter(torch.zeros(GATES, 1, H))  # b_0
        gain = torch.full((GATES + 1, 1, H), model.norm_gain)
        self.gain = nn.Parameter(gain) if model.layer_norm else None
        self.shift = nn.Parameter(torch.zeros(GATES + 1, 1, H)) if model.layer_norm else None
        self._initialise()

    @torch.no_grad()
    def _initialise(self) -> None:
        """As in the paper: all scales start at the same small value, whatever ĥ is."""
        H, Z = self.config.hidden, self.config.hyper_embedding
        for gate in range(GATES):
            nn.init.orthogonal_(self.W_h.weight[gate * H : (gate + 1) * H])
        scales = 2 * GATES * Z  # rows of z_h and z_x
        self.W_z.weight[:scales] = 0
        self.W_z.bias[:scales] = 1
        # DEVIATION(initial weights): W_bz is not zero but as small as W_hb; else no gradient would
        # reach the small LSTM at first.
        nn.init.normal_(self.W_z.weight[scales:], std=0.01)
        self.W_z.bias[scales:] = 0
        self.W_d[: 2 * GATES] = INITIAL_SCALE / Z
        nn.init.normal_(self.W_d[2 * GATES :], std=0.01)
        target = self.b if self.shift is None else self.shift
        target[0] = self.config.forget_bias

    def initial_state(self, batch: int, like: Tensor) -> HyperState:
        sizes = (self.config.hidden, self.config.hyper_hidden)
        return HyperState(*(ControllerState.empty(batch, size, like) for size in sizes))

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> Tensor | None:
        return recurrent_dropout(self.config, x_TBD, generator)

    def forward(
        self,
        x_TBD: Tensor,
        state: HyperState | None = None,
        mask_TB: Tensor | None = None,
        noise: Tensor | None = None,
    ) -> tuple[Hidden, HyperState]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        zx_T4BH = self.W_x(x_TBD).unflatten(2, (GATES, -1)).transpose(1, 2)
        over = [self.hyper.project_inputs(x_TBD), zx_T4BH, noise]
        (h_TBH,), state = unroll(self.step, over, state, mask_TB)
        return Hidden(h_TBH), state

    def step(
        self, state: HyperState, hyper_BG: Tensor, zx_4BH: Tensor, dropout_BH: Tensor | None
    ) -> tuple[HyperState, tuple[Tensor]]:
        """A step of the small LSTM, then one of the large with scaled weights."""
        h_BH, c_BH = state.main
        hyper, _ = self.hyper(hyper_BG, h_BH, state.hyper)
        z_12BZ = self.W_z(hyper.h_BH).unflatten(1, (SOURCES * GATES, -1)).transpose(0, 1)
        d_h, d_x, b = torch.bmm(z_12BZ, self.W_d).split(GATES)
        zh_4BH = self.W_h(h_BH).unflatten(1, (GATES, -1)).transpose(0, 1)
        z_4BH = self._normalise(d_h * zh_4BH + d_x * zx_4BH + b + self.b, slice(GATES))
        f, i, o = torch.sigmoid(z_4BH[:3])
        g = torch.tanh(z_4BH[3])
        if dropout_BH is not None:
            g = g * dropout_BH
        c_BH = f * c_BH + i * g
        h_BH = o * torch.tanh(self._normalise(c_BH.unsqueeze(0), slice(GATES, None)).squeeze(0))
        return HyperState(ControllerState(h_BH, c_BH), hyper), (h_BH,)

    def _normalise(self, z_NBH: Tensor, which: slice) -> Tensor:
        """LN with gain and shift, of gates or of the cell."""
        if self.gain is None or self.shift is None:
            return z_NBH
        normal_NBH = F.layer_norm(z_NBH, z_NBH.shape[-1:])
        return normal_NBH * self.gain[which] + self.shift[which]
