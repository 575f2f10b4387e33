"""A whole sequence backward on a GPU: two matrix products and two kernels per step.

Row t of the slopes holds the gradients of all products with the state before step t: of the gates
and the read logits of step t, and of the micro-state that step t - 1 wrote. One product per step
makes the gradient of that state; one after the loop makes the gradients of all these weights.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from tardis_core.kernels import triton_kernels as kernels
from tardis_core.kernels.inputs import Fixed, Outputs, Trained, choice_gradient
from tardis_core.kernels.triton_forward import (
    Sizes,
    Tape,
    product_dtype,
    readable,
    reset_first,
    state_weights,
)


def over_time(slopes: Tensor, factors: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The gradient of a weight: the sum over all steps of slope times what it was multiplied by.

    Args:
        dtype: of the product; that of the factors unless it is given.
    """
    left, right = slopes.flatten(0, -2).t(), factors.flatten(0, -2)
    return (left.to(dtype or right.dtype) @ right.to(dtype or right.dtype)).to(factors.dtype)


def _start(gradient: Tensor | None, like: Tensor) -> Tensor:
    """A gradient to be added to, beginning with the one given."""
    if gradient is None:
        return torch.zeros_like(like, memory_format=torch.contiguous_format)
    return gradient.clone(memory_format=torch.contiguous_format)


class _Gates:
    """The controller on its way back."""

    def __init__(
        self, trained: Trained, fixed: Fixed, tape: Tape, incoming: Outputs, size: Sizes
    ) -> None:
        self.trained, self.fixed, self.tape, self.size = trained, fixed, tape, size
        self.incoming, self.none = incoming, trained.x_TBD
        new, self.dtype = trained.x_TBD, product_dtype(trained, fixed)
        self.dz_TBG = torch.empty_like(tape.z_TBG)
        self.r_slopes_BG = new.new_empty(size.B, size.G, dtype=self.dtype)
        self.held_BH = _start(incoming.h_BH, trained.h_BH)
        self.dc_BH = _start(incoming.c_BH, trained.c_BH)
        self.dgain_B4H, self.dbias_B4H = new.new_zeros(2, size.B, 4 * size.H).unbind()
        self.bias_4H = trained.b_G[: 4 * size.H].contiguous()
        self.gain_4H = readable(trained.gain_4H, new)
        self.dh_out_TBH = readable(incoming.h_TBH, new)
        self.dreset_TB2 = readable(incoming.reset_TB2, new)
        self.dropout_TBH = readable(fixed.dropout_TBH, new)
        self.mask_TB = readable(fixed.mask_TB, new)

    def step(self, t: int, dh_BH: Tensor, slopes_TBV: Tensor) -> None:
        """Back through Eqs. (10) to (7)."""
        tape, size, fixed = self.tape, self.size, self.fixed
        norm = self.trained.gain_4H is not None
        whole = norm or fixed.reset
        kernels.gates_backward[size.gate_grid(whole)](
            dh_BH,
            self.held_BH,
            self.dc_BH,
            self.dh_out_TBH,
            self.dreset_TB2,
            tape.z_TBG,
            readable(tape.r_part_TBH, self.none),
            readable(tape.h_part_TBH, self.none),
            readable(tape.deviation_TB4, self.none),
            self.gain_4H,
            self.bias_4H,
            readable(tape.reset_TB2, self.none),
            self.dropout_TBH,
            self.mask_TB,
            tape.c_TBH,
            self.dz_TBG,
            slopes_TBV,
            self.r_slopes_BG,
            self.dgain_B4H,
            self.dbias_B4H,
            t,
            size.B,
            V=slopes_TBV.shape[2],
            MEMORY=size.K > 0,
            RESET=fixed.reset,
            NORM=norm,
            DROPOUT=fixed.dropout_TBH is not None,
            MASKED=fixed.mask_TB is not None,
            FROM_H=self.incoming.h_TBH is not None,
            FROM_RESET=self.incoming.reset_TB2 is not None,
            **size.gate_blocks(whole),
        )

    def weights(self, dW_h_GH: Tensor) -> dict[str, Tensor]:
        """The gradients of the controller's weights, its own order of rows restored."""
        trained, tape, H = self.trained, self.tape, self.size.H
        R = self.size.G - 4 * H
        db_G = self.dz_TBG.sum((0, 1)).roll(-R)
        gradients = {
            "W_x_GD": over_time(self.dz_TBG, trained.x_TBD, self.dtype).roll(-R, 0),
            "W_h_GH": dW_h_GH.roll(-R, 0),
        }
        if trained.W_r_GQ is not None:
            slopes_TBG = self.dz_TBG
            if self.fixed.reset:  # the candidate has seen alpha r
                candidate_TBH = self.dz_TBG[..., -H:] * tape.reset_TB2[..., :1]
                slopes_TBG = torch.cat([self.dz_TBG[..., :-H], candidate_TBH], 2)
            gradients["W_r_GQ"] = over_time(slopes_TBG, tape.r_TBQ, self.dtype).roll(-R, 0)
        if trained.gain_4H is not None:  # what is normalised gets its bias afterwards
            db_G[: 4 * H] = self.dbias_B4H.sum(0)
            gradients["gain_4H"] = self.dgain_B4H.sum(0).view_as(trained.gain_4H)
        return gradients | {"b_G": db_G}


class _Memory:
    """The memory on its way back: a write is undone by putting the old content back."""

    def __init__(
        self, trained: Trained, fixed: Fixed, tape: Tape, incoming: Outputs, size: Sizes
    ) -> None:
        self.trained, self.fixed, self.tape, self.size = trained, fixed, tape, size
        self.incoming, new = incoming, trained.x_TBD
        dtype = product_dtype(trained, fixed)
        self.temperature = trained.w_tau_1H is not None
        softmaxes = choice_gradient(fixed, tape.pi_TBK, tape.read_TB)
        self.softmaxes = 0 if softmaxes is None else len(softmaxes.p_SBK)
        self.p_STBK = new if softmaxes is None else softmaxes.p_SBK.contiguous()
        self.scale_S = new if softmaxes is None else softmaxes.scales()
        self.soft = self.temperature or self.softmaxes > 0
        self.addressed = self.soft or incoming.pi_TBK is not None
        self.content_BKC, self.cells_BKP = tape.content_BKC.clone(), tape.cells_BKP.clone()
        self.dcontent_BKC = _start(incoming.content_BKC, tape.content_BKC)
        self.dcells_BKP = torch.zeros_like(tape.cells_BKP)  # since the cell was written
        self.da_BP = new.new_zeros(size.B, size.P)
        self.dcommon_TBP, self.drow_TBP = new.new_zeros(2, *tape.common_TBP.shape).unbind()
        self.scratch_BK = new.new_empty(size.B, size.K)
        self.dr_BQ = new.new_empty(size.B, size.A + size.C, dtype=dtype)
        self.W_r_GQ = reset_first(trained.W_r_GQ, size.H).to(dtype)
        self.address_KA = fixed.address_KA.contiguous()
        self.noise_TBK = readable(fixed.read_noise_TBK, new)
        self.mask_TB = readable(fixed.mask_TB, new)
        self.dr_TBQ = readable(incoming.r_TBQ, new)
        self.dpi_TBK = readable(incoming.pi_TBK, new)
        self.tau_TB = new
        if self.temperature:
            h_TBH = tape.h_TBH[:-1]
            self.tau_TB = F.linear(h_TBH, trained.w_tau_1H, trained.b_tau_1).contiguous()

    def step(self, t: int, slopes_TBV: Tensor, r_slopes_BG: Tensor) -> None:
        """Back through the read of step t and the write of the step before it."""
        tape, fixed, incoming = self.tape, self.fixed, self.incoming
        if t < self.size.T:
            torch.mm(r_slopes_BG, self.W_r_GQ, out=self.dr_BQ)
        kernels.unread_unwrite[(self.size.B,)](
            self.dr_BQ,
            self.dr_TBQ,
            self.dpi_TBK,
            self.tau_TB,
            self.p_STBK,
            self.scale_S,
            self.content_BKC,
            self.cells_BKP,
            self.dcontent_BKC,
            self.dcells_BKP,
            self.da_BP,
            self.address_KA,
            self.trained.a_P,
            self.noise_TBK,
            self.mask_TB,
            tape.pi_TBK,
            tape.common_TBP,
            tape.overwritten_TBC,
            tape.overwritten_row_TBP,
            tape.read_TB,
            tape.written_TB,
            self.scratch_BK,
            slopes_TBV,
            self.dcommon_TBP,
            self.drow_TBP,
            t,
            self.size.B,
            self.size.T,
            V=slopes_TBV.shape[2],
            UNREAD=t < self.size.T,
            UNWRITE=t > 0,
            SOFT=self.soft,
            SOFTMAXES=self.softmaxes,
            NOISE=fixed.read_noise_TBK is not None and fixed.noisy_temperature,
            ADDRESSED=self.addressed,
            MASKED=fixed.mask_TB is not None,
            FROM_R=incoming.r_TBQ is not None,
            FROM_PI=incoming.pi_TBK is not None,
            **self.size.cell_blocks(wide=257),
        )

    def weights(self, by_state_VH: Tensor) -> dict[str, Tensor]:
        """The gradients of the weights of the memory and of the state that it began with."""
        trained, tape, size = self.trained, self.tape, self.size
        dW_m_CH, drow_PH, _, dread_PH, dtau_1H = by_state_VH.split(
            [size.C, size.P, size.G, size.P, 1]
        )
        gradients = {"W_m_CH": dW_m_CH}
        if self.addressed:
            if self.fixed.attached:
                gradients["W_m_CH"] = dW_m_CH + trained.read_W_c_PC.t() @ drow_PH
            cells_K = torch.arange(size.K, device=dW_m_CH.device)
            written_TBK = (tape.written_TB.unsqueeze(2) == cells_K).to(dW_m_CH.dtype)
            dread_W_c_PC = drow_PH @ trained.W_m_CH.t()
            gradients["read_W_x_PD"] = over_time(self.dcommon_TBP, trained.x_TBD)
            gradients["read_b_P"] = self.dcommon_TBP.sum((0, 1))
            gradients["read_W_h_PH"] = dread_PH
            gradients["read_W_u_PK"] = over_time(self.dcommon_TBP, tape.usage_TBK)
            gradients["address_KP"] = over_time(written_TBK, self.drow_TBP) + self.dcells_BKP.sum(0)
            gradients["a_P"] = self.da_BP.sum(0)
            if trained.content_BKC is not None:
                dread_W_c_PC = dread_W_c_PC + over_time(self.dcells_BKP, trained.content_BKC)
                if self.fixed.attached:
                    self.dcontent_BKC += self.dcells_BKP @ trained.read_W_c_PC
            gradients["read_W_c_PC"] = dread_W_c_PC
            if self.temperature:
                gradients["w_tau_1H"] = dtau_1H
        if trained.content_BKC is not None:
            gradients["content_BKC"] = self.dcontent_BKC
        return gradients


def _weights_back(trained: Trained, fixed: Fixed) -> Tensor:
    """What the slopes are multiplied by; those of read logits that are detached give h nothing."""
    weights_WH = state_weights(trained)
    if trained.W_m_CH is None:
        return weights_WH
    tau_1H = trained.w_tau_1H
    if tau_1H is None:
        tau_1H = weights_WH.new_zeros(1, weights_WH.shape[1])
    weights_VH = torch.cat([weights_WH, tau_1H])
    if not fixed.attached:
        C, P = trained.W_m_CH.shape[0], trained.a_P.shape[0]
        weights_VH[C : C + P] = 0
        weights_VH[-P - 1 : -1] = 0
    return weights_VH


def backward(trained: Trained, fixed: Fixed, tape: Tape, incoming: Outputs) -> Trained:
    """The gradients of all that is trained; None where there is none."""
    size = Sizes.of(trained, fixed)
    gates = _Gates(trained, fixed, tape, incoming, size)
    memory = _Memory(trained, fixed, tape, incoming, size) if size.K else None
    dtype = product_dtype(trained, fixed)
    weights_VH = _weights_back(trained, fixed).to(dtype)
    slopes_TBV = weights_VH.new_zeros(size.T + 1, size.B, weights_VH.shape[0])
    dh_BH = weights_VH.new_zeros(size.B, size.H)
    for t in range(size.T if size.B else -1, -1, -1):
        if t < size.T:
            gates.step(t, dh_BH, slopes_TBV)
        if memory is not None:
            memory.step(t, slopes_TBV, gates.r_slopes_BG)
        torch.mm(slopes_TBV[t], weights_VH, out=dh_BH)
    by_state_VH = over_time(slopes_TBV, tape.h_TBH, dtype)
    first = size.gates_at
    gradients = {"h_BH": dh_BH + gates.held_BH, "c_BH": gates.dc_BH}
    gradients |= gates.weights(by_state_VH[first : first + size.G])
    if memory is not None:
        gradients |= memory.weights(by_state_VH)
        if memory.temperature:
            gradients["b_tau_1"] = slopes_TBV[..., -1].sum(dtype=trained.x_TBD.dtype).view(1)
    if trained.x_TBD.requires_grad:
        gradients["x_TBD"] = gates.dz_TBG @ reset_first(trained.W_x_GD, size.H)
        if memory is not None and memory.addressed and fixed.attached:
            gradients["x_TBD"] += memory.dcommon_TBP @ trained.read_W_x_PD
    return Trained._make(gradients.get(name) for name in Trained._fields)
