"""What a kernel works on: a model, its inputs, state and noise, taken apart into plain tensors.

Letters: B batch, T time, D input, H hidden, G = 4H (+ 2 with RESET gates), K cells, A address,
C content, Q = A + C, P attention. For the LSTM baseline all that belongs to a memory is None.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from tardis_core.models.base import Hidden, Reads
from tardis_core.models.controller import ControllerState
from tardis_core.models.memory import MemoryState

if TYPE_CHECKING:
    from tardis_core.models.lstm import Lstm, LstmNoise
    from tardis_core.models.tardis import Tardis, TardisNoise, TardisState


Maybe = Any  # a tensor; None where the model has no such part


class Trained(NamedTuple):
    """All that a gradient can flow to."""

    x_TBD: Tensor
    W_x_GD: Tensor
    b_G: Tensor
    W_h_GH: Tensor
    W_r_GQ: Maybe
    gain_4H: Maybe  # of layer normalisation; None without it
    h_BH: Tensor
    c_BH: Tensor
    content_BKC: Maybe = None  # None: the memory is empty
    W_m_CH: Maybe = None
    read_W_x_PD: Maybe = None
    read_b_P: Maybe = None
    read_W_h_PH: Maybe = None
    read_W_c_PC: Maybe = None
    read_W_u_PK: Maybe = None
    address_KP: Maybe = None
    a_P: Maybe = None
    w_tau_1H: Maybe = None  # None: the choice of the cell passes no gradient
    b_tau_1: Maybe = None


class Fixed(NamedTuple):
    """What no gradient flows to."""

    mask_TB: Maybe
    dropout_TBH: Maybe
    reset: bool = False
    attached: bool = False  # whether gradients flow from the read logits to h, x and the contents
    address_KA: Maybe = None
    reads_BK: Maybe = None
    last_B: Maybe = None  # the cell read last, -1 before the first read
    steps_B: Maybe = None
    read_noise_TBK: Maybe = None
    reset_noise_TB2: Maybe = None


class Outputs(NamedTuple):
    """What comes out: the sequence, then the state after it."""

    h_TBH: Tensor
    r_TBQ: Maybe
    pi_TBK: Maybe
    reset_TB2: Maybe
    h_BH: Tensor
    c_BH: Tensor
    content_BKC: Maybe
    read_TB: Maybe
    written_TB: Maybe
    reads_BK: Maybe
    last_B: Maybe
    steps_B: Maybe

    def choices(self) -> tuple[Tensor, ...]:
        """Those that have no gradient."""
        made = (self.read_TB, self.written_TB, self.reads_BK, self.last_B, self.steps_B)
        return tuple(each for each in made if each is not None)


def of_lstm(
    model: "Lstm",
    x_TBD: Tensor,
    state: ControllerState | None,
    mask_TB: Tensor | None,
    noise: "LstmNoise | None",
) -> tuple[Trained, Fixed]:
    """The LSTM baseline taken apart."""
    h_BH, c_BH = state or model.initial_state(x_TBD.shape[1], x_TBD)
    part = model.controller
    trained = Trained(x_TBD, part.W_x.weight, part.b, part.W_h.weight, None, part.gain, h_BH, c_BH)
    return trained, Fixed(mask_TB, noise.dropout_TBH if noise else None)


def lstm_result(made: Outputs) -> tuple[Hidden, ControllerState]:
    """The outputs as the LSTM baseline returns them."""
    return Hidden(made.h_TBH), ControllerState(made.h_BH, made.c_BH)


def of_tardis(
    model: "Tardis",
    x_TBD: Tensor,
    state: "TardisState | None",
    mask_TB: Tensor | None,
    noise: "TardisNoise | None",
    *,
    soft: bool,
    attached: bool,
) -> tuple[Trained, Fixed]:
    """TARDIS taken apart.

    Args:
        soft: whether the choice of the cell passes a gradient, straight through.
        attached: whether gradients flow from the read logits to h, x and the contents.
    """
    start = state or model.initial_state(x_TBD.shape[1], x_TBD)
    controller, addressing, memory = model.controller, model.addressing, start.memory
    cells = addressing.cell_weights(model.address_KA)
    w_tau: Any = model.estimator.w_tau if soft else None
    assert controller.W_r is not None
    trained = Trained(
        x_TBD=x_TBD,
        W_x_GD=controller.W_x.weight,
        b_G=controller.b,
        W_h_GH=controller.W_h.weight,
        W_r_GQ=controller.W_r.weight,
        gain_4H=controller.gain,
        h_BH=start.controller.h_BH,
        c_BH=start.controller.c_BH,
        content_BKC=None if state is None else memory.content_BKC,
        W_m_CH=model.W_m.weight,
        read_W_x_PD=addressing.W_x.weight,
        read_b_P=addressing.W_x.bias,
        read_W_h_PH=addressing.W_h.weight,
        read_W_c_PC=cells.content_PC,
        read_W_u_PK=addressing.W_u.weight,
        address_KP=cells.address_KP,
        a_P=addressing.a,
        w_tau_1H=None if w_tau is None else w_tau.weight,
        b_tau_1=None if w_tau is None else w_tau.bias,
    )
    # One-hot rows as indices; before the first read there is no such cell.
    last_B = torch.where(memory.last_read_BK.any(1), memory.last_read_BK.argmax(1), -1)
    fixed = Fixed(
        mask_TB=mask_TB,
        dropout_TBH=noise.dropout_TBH if noise else None,
        reset=controller.reset_gates,
        attached=attached,
        address_KA=model.address_KA,
        reads_BK=None if state is None else memory.reads_BK,
        last_B=last_B,
        steps_B=memory.steps_B,
        read_noise_TBK=noise.read_TBK if noise else None,
        reset_noise_TB2=noise.reset_TB2 if noise else None,
    )
    return trained, fixed


def tardis_result(made: Outputs) -> tuple[Hidden, ControllerState, MemoryState]:
    """The outputs as TARDIS returns them; the state comes in its two parts."""
    cells = torch.arange(made.reads_BK.shape[1], device=made.last_B.device)
    last_read_BK = (cells == made.last_B.unsqueeze(1)).to(made.reads_BK.dtype)
    reads = Reads(made.pi_TBK, made.read_TB, made.written_TB)
    return (
        Hidden(made.h_TBH, made.r_TBQ, reads, made.reset_TB2),
        ControllerState(made.h_BH, made.c_BH),
        MemoryState(made.content_BKC, made.reads_BK, last_read_BK, made.steps_B),
    )
