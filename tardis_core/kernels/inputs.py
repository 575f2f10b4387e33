"""What a kernel works on: a model, its inputs, state and noise, taken apart into plain tensors.

Letters: B batch, T time, D input, H hidden, G = 4H (+ 2 with RESET gates), K cells, A address,
C content, Q = A + C, P attention. For the LSTM baseline all that belongs to a memory is None.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from tardis_core.models.base import Hidden, Reads
from tardis_core.models.controller import ControllerState
from tardis_core.models.memory import MemoryState

if TYPE_CHECKING:
    from tardis_core.models.baselines.lstm import Lstm, LstmNoise
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
    reads_BK: Maybe = None  # this and the next two: None for an empty memory
    last_read_BK: Maybe = None
    steps_B: Maybe = None
    read_noise_TBK: Maybe = None
    reset_noise_TB2: Maybe = None
    product_dtype: Maybe = None  # of matrix products, where they are less precise than the state


def needed_backward(trained: Trained, fixed: Fixed) -> Fixed:
    """Without the noise of the reads, a number a cell, where the choice passes no gradient."""
    return fixed if trained.w_tau_1H is not None else fixed._replace(read_noise_TBK=None)


def wants_gradient(trained: Trained) -> bool:
    """Whether anything of it is to get a gradient."""
    return torch.is_grad_enabled() and any(
        each is not None and each.requires_grad for each in trained
    )


def check(trained: Trained, fixed: Fixed) -> None:
    """That the state, the noise and the mask fit: a kernel would read beyond their ends."""
    T, B, _ = trained.x_TBD.shape
    H = trained.W_h_GH.shape[1]
    K = 0 if fixed.address_KA is None else fixed.address_KA.shape[0]
    C = 0 if trained.W_m_CH is None else trained.W_m_CH.shape[0]
    expected = (
        ("h of the state", trained.h_BH, (B, H)),
        ("c of the state", trained.c_BH, (B, H)),
        ("content of the state", trained.content_BKC, (B, K, C)),
        ("reads of the state", fixed.reads_BK, (B, K)),
        ("last read of the state", fixed.last_read_BK, (B, K)),
        ("steps of the state", fixed.steps_B, (B,)),
        ("mask", fixed.mask_TB, (T, B)),
        ("noise of the dropout", fixed.dropout_TBH, (T, B, H)),
        ("noise of the reads", fixed.read_noise_TBK, (T, B, K)),
        ("noise of the RESET gates", fixed.reset_noise_TB2, (T, B, 2)),
    )
    for name, tensor, shape in expected:
        if tensor is not None and tensor.shape != shape:
            raise ValueError(f"{name} has the shape {tuple(tensor.shape)}, not {shape}")


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
    last_read_BK: Maybe
    steps_B: Maybe

    def choices(self) -> tuple[Tensor, ...]:
        """Those that have no gradient."""
        made = (self.read_TB, self.written_TB, self.reads_BK, self.last_read_BK, self.steps_B)
        return tuple(each for each in made if each is not None)


def modules_of(module: nn.Module) -> dict[str, Any]:
    """The parts of a module by name.

    `nn.Module.__getattr__` takes up to a microsecond a name, and TARDIS has thirty: too long where
    a call computes one symbol.
    """
    return module._modules


def parameter_of(module: nn.Module, name: str = "weight") -> Any:
    """A parameter of a module, likewise; `getattr` finds it where it is computed, as by pruning."""
    found = module._parameters.get(name)
    return getattr(module, name) if found is None else found


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
    B, H = x_TBD.shape[1], model.config.hidden
    parts, weight = modules_of(model), parameter_of
    address_KA = model.address_KA[: model.cells_of(state, noise)]
    controller, addressing = parts["controller"], parts["addressing"]
    gates, attention = modules_of(controller), modules_of(addressing)
    memory = None if state is None else state.memory
    h_BH, c_BH = x_TBD.new_zeros(2, B, H) if state is None else state.controller
    cells = addressing.cell_weights(address_KA)
    w_tau = parts["estimator"].w_tau if soft else None
    trained = Trained(
        x_TBD=x_TBD,
        W_x_GD=weight(gates["W_x"]),
        b_G=weight(controller, "b"),
        W_h_GH=weight(gates["W_h"]),
        W_r_GQ=weight(gates["W_r"]),
        gain_4H=controller.gain,
        h_BH=h_BH,
        c_BH=c_BH,
        content_BKC=None if memory is None else memory.content_BKC,
        W_m_CH=weight(parts["W_m"]),
        read_W_x_PD=weight(attention["W_x"]),
        read_b_P=weight(attention["W_x"], "bias"),
        read_W_h_PH=weight(attention["W_h"]),
        read_W_c_PC=cells.content_PC,
        read_W_u_PK=cells.usage_PK,
        address_KP=cells.address_KP,
        a_P=weight(addressing, "a"),
        w_tau_1H=None if w_tau is None else w_tau.weight,
        b_tau_1=None if w_tau is None else w_tau.bias,
    )
    fixed = Fixed(
        mask_TB=mask_TB,
        dropout_TBH=noise.dropout_TBH if noise else None,
        reset=controller.reset_gates,
        attached=attached,
        address_KA=address_KA,
        reads_BK=None if memory is None else memory.reads_BK,
        last_read_BK=None if memory is None else memory.last_read_BK,
        steps_B=None if memory is None else memory.steps_B,
        read_noise_TBK=noise.read_TBK if noise else None,
        reset_noise_TB2=noise.reset_TB2 if noise else None,
    )
    return trained, fixed


def tardis_result(made: Outputs) -> tuple[Hidden, ControllerState, MemoryState]:
    """The outputs as TARDIS returns them; the state comes in its two parts."""
    reads = Reads(made.pi_TBK, made.read_TB, made.written_TB)
    return (
        Hidden(made.h_TBH, made.r_TBQ, reads, made.reset_TB2),
        ControllerState(made.h_BH, made.c_BH),
        MemoryState(made.content_BKC, made.reads_BK, made.last_read_BK, made.steps_B),
    )
