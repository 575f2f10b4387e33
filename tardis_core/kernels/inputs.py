"""The tensors that a kernel works on: weights, inputs, state and noise of a sequence.

A model fills them in, as in `models/tardis_tensors.py`; kernels know no model.

Letters: B batch, T time, D input, H hidden, G = 4H (+ 2 with RESET gates), K cells, A address,
C content, Q = A + C, P attention. Without a memory, as in an LSTM, its tensors are None.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

Maybe = Any  # a tensor; None where the model has no such part


class Softmaxes(Protocol):
    """S distributions p_s with factors: dpi = sum_s scale_s (diag(p_s) - p_s p_s^T) dw."""

    @property
    def p_SBK(self) -> Tensor:
        """The distributions; any axes may stand between S and K."""

    def at(self, t: int) -> "Softmaxes":
        """Those of one step of a sequence."""

    def vjp(self, grad_w_BK: Tensor) -> Tensor:
        """dpi from dw."""

    def scales(self) -> Tensor:
        """The factors, as a tensor."""


class Trained(NamedTuple):
    """The tensors that get a gradient."""

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
    w_tau_1H: Maybe = None  # of a learned temperature, through which the choice is differentiated
    b_tau_1: Maybe = None


class Fixed(NamedTuple):
    """The tensors that get no gradient, and switches."""

    mask_TB: Maybe
    dropout_TBH: Maybe
    reset: bool = False
    attached: bool = False  # whether gradients flow from the read logits to h, x and the contents
    # (pi, noise, spare noise, read) of all steps -> the gradient of the choice, where it has one
    # and no learned temperature; all axes of time and batch are between S and K.
    softmaxes: Callable[[Tensor, Tensor, Tensor | None, Tensor], Any] | None = None
    noisy_temperature: bool = True  # whether a learned temperature scales pi + noise, or pi
    address_KA: Maybe = None
    reads_BK: Maybe = None  # this and the next two: None for an empty memory
    last_read_BK: Maybe = None
    steps_B: Maybe = None
    read_noise_TBK: Maybe = None
    reset_noise_TB2: Maybe = None
    spare_noise_TBSK: Maybe = None  # for `softmaxes`
    product_dtype: Maybe = None  # of matrix products, where they are less precise than the state


def needed_backward(trained: Trained, fixed: Fixed) -> Fixed:
    """Without the noise of the reads, one number per cell, where their gradient has none."""
    temperature = trained.w_tau_1H is not None and fixed.noisy_temperature
    needed = temperature or fixed.softmaxes is not None
    return fixed if needed else fixed._replace(read_noise_TBK=None)


def choice_gradient(fixed: Fixed, pi_TBK: Tensor, read_TB: Tensor) -> Softmaxes | None:
    """The gradient of the choices of a sequence, if it is one of softmaxes."""
    if fixed.softmaxes is None:
        return None
    return fixed.softmaxes(pi_TBK, fixed.read_noise_TBK, fixed.spare_noise_TBSK, read_TB)


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
    """The outputs of a kernel: the sequence, then the state after it."""

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
        chosen = (self.read_TB, self.written_TB, self.reads_BK, self.last_read_BK, self.steps_B)
        return tuple(each for each in chosen if each is not None)
