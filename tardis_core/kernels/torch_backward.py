"""A whole sequence backward in torch operations.

The loop makes the gradients of states and pre-activations; those of the weights are one product
each at the end. The memory runs backwards: a write is undone by putting the old content back.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from tardis_core.kernels.inputs import Fixed, Maybe, Outputs, Trained, choice_gradient
from tardis_core.kernels.torch_forward import (
    RESET_TEMPERATURE,
    Tape,
    at_cell,
    gates,
    put_cell,
    read_and_hidden_weights,
    reset_first,
    scaled_by_reset,
)


def start(gradient: Tensor | None, like: Tensor) -> Tensor:
    """A gradient to be added to, beginning with the one given."""
    return torch.zeros_like(like) if gradient is None else gradient.clone()


def over_time(slopes: Tensor, seen: Tensor) -> Tensor:
    """The gradient of a weight: the sum over all steps of slope times what it was multiplied by."""
    return slopes.flatten(0, -2).t() @ seen.flatten(0, -2)


class MemoryBackward:
    """The memory on its way back, and the gradients of all that belongs to it."""

    def __init__(self, trained: Trained, fixed: Fixed, tape: Tape, incoming: Outputs) -> None:
        self.trained, self.fixed, self.tape, self.incoming = trained, fixed, tape, incoming
        self.temperature = trained.w_tau_1H is not None
        self.softmaxes = choice_gradient(fixed, tape.pi_TBK, tape.read_TB)
        self.soft = self.temperature or self.softmaxes is not None
        self.addressed = self.soft or incoming.pi_TBK is not None
        self.dcontent_BKC = start(incoming.content_BKC, tape.content_BKC)
        self.dmicro_TBC = torch.empty_like(tape.micro_TBC)
        self.content_BKC = tape.content_BKC.clone()
        if not self.addressed:
            return
        self.cells_BKP = F.linear(self.content_BKC, trained.read_W_c_PC) + trained.address_KP
        self.dcells_BKP = torch.zeros_like(self.cells_BKP)  # since the cell was written
        self.drow_TBP = torch.empty_like(tape.common_TBP)
        self.dcommon_TBP = torch.empty_like(tape.common_TBP)
        self.da_P = torch.zeros_like(trained.a_P)
        if self.temperature:
            h_TBH = tape.hr_TBS[..., : trained.W_h_GH.shape[1]]
            self.tau_logit_TB1 = F.linear(h_TBH, trained.w_tau_1H, trained.b_tau_1)
            self.dtau_TB1 = torch.empty_like(self.tau_logit_TB1)

    def unwrite(self, t: int, mask_B: Tensor | None) -> Tensor:
        """Back through the write; returns its part of the gradient of h."""
        trained, place_B = self.trained, self.tape.written_TB[t]
        dmicro_BC = self._take(self.dcontent_BKC, place_B, mask_B)
        before_BC = self.tape.overwritten_TBC[t]
        cell = at_cell(place_B, before_BC.shape[1])
        self.content_BKC.scatter_(1, cell, before_BC.unsqueeze(1))
        if self.addressed:
            put_cell(self.cells_BKP, trained, place_B, before_BC)
            self.drow_TBP[t] = self._take(self.dcells_BKP, place_B, mask_B)
            if self.fixed.attached:
                dmicro_BC = torch.addmm(dmicro_BC, self.drow_TBP[t], trained.read_W_c_PC)
        self.dmicro_TBC[t] = dmicro_BC
        return dmicro_BC @ trained.W_m_CH

    @staticmethod
    def _take(gathered_BKN: Tensor, place_B: Tensor, mask_B: Tensor | None) -> Tensor:
        """What a cell has gathered, which leaves it empty; where masked nothing is taken."""
        cell = at_cell(place_B, gathered_BKN.shape[2])
        found_B1N = gathered_BKN.gather(1, cell)
        if mask_B is None:
            gathered_BKN.scatter_(1, cell, 0)
            return found_B1N.squeeze(1)
        kept_B1N = found_B1N.masked_fill(mask_B.view(-1, 1, 1), 0)
        gathered_BKN.scatter_(1, cell, kept_B1N)
        return (found_B1N - kept_B1N).squeeze(1)

    def unread(self, t: int, dr_BQ: Tensor) -> Tensor | None:
        """Back through the read; returns its part of the gradient of h."""
        trained, incoming = self.trained, self.incoming
        if incoming.r_TBQ is not None:
            dr_BQ = dr_BQ + incoming.r_TBQ[t]
        A = self.fixed.address_KA.shape[1]
        cell = at_cell(self.tape.read_TB[t], dr_BQ.shape[1] - A)
        self.dcontent_BKC.scatter_add_(1, cell, dr_BQ[:, A:].unsqueeze(1))
        if not self.addressed:
            return None
        dpi_BK = None if incoming.pi_TBK is None else incoming.pi_TBK[t]
        dh_BH = None
        if self.soft:
            dchoice_BK = self._choice(t, dr_BQ[:, :A], dr_BQ[:, A:])
            dpi_BK = dchoice_BK if dpi_BK is None else dpi_BK + dchoice_BK
        if self.temperature:
            dh_BH = self.dtau_TB1[t] @ trained.w_tau_1H
        assert dpi_BK is not None
        self._logits(t, dpi_BK)
        if self.fixed.attached:
            part_BH = self.dcommon_TBP[t] @ trained.read_W_h_PH
            dh_BH = part_BH if dh_BH is None else dh_BH + part_BH
        return dh_BH

    def _choice(self, t: int, dr_BA: Tensor, dr_BC: Tensor) -> Tensor:
        """Straight through: from the gradient of the read weights to that of pi."""
        dweight_BK = torch.bmm(self.content_BKC, dr_BC.unsqueeze(2)).squeeze(2)
        dweight_BK.addmm_(dr_BA, self.fixed.address_KA.t())
        if self.softmaxes is None:
            return self._temperature(t, dweight_BK)
        return self.softmaxes.at(t).vjp(dweight_BK)

    def _temperature(self, t: int, dweight_BK: Tensor) -> Tensor:
        """By softmax((pi + noise) tau): the gradient of pi; that of tau is kept."""
        noise_TBK = self.fixed.read_noise_TBK
        pi_BK = self.tape.pi_TBK[t]
        score_BK = pi_BK if noise_TBK is None else pi_BK + noise_TBK[t]
        tau_B1 = F.softplus(self.tau_logit_TB1[t]) + 1
        weight_BK = torch.softmax(score_BK * tau_B1, 1)
        dscore_BK = weight_BK * (dweight_BK - (weight_BK * dweight_BK).sum(1, keepdim=True))
        dtau_B1 = (dscore_BK * score_BK).sum(1, keepdim=True)
        self.dtau_TB1[t] = dtau_B1 * torch.sigmoid(self.tau_logit_TB1[t])
        return dscore_BK * tau_B1

    def _logits(self, t: int, dpi_BK: Tensor) -> None:
        """Back through pi = a . tanh(cell + common)."""
        tanh_BKP = (self.cells_BKP + self.tape.common_TBP[t].unsqueeze(1)).tanh_()
        self.da_P += dpi_BK.flatten() @ tanh_BKP.flatten(0, 1)
        dcells_BKP = (dpi_BK.unsqueeze(2) * self.trained.a_P).mul_(1 - tanh_BKP.square())
        self.dcells_BKP += dcells_BKP
        torch.sum(dcells_BKP, 1, out=self.dcommon_TBP[t])

    def weights(self) -> dict[str, Tensor]:
        """The gradients of the weights of the memory and of the state that it began with."""
        trained, tape = self.trained, self.tape
        slopes_by_name = {"W_m_CH": over_time(self.dmicro_TBC, tape.h_out_TBH)}
        if self.addressed:
            h_TBH, K = tape.hr_TBS[..., : trained.W_h_GH.shape[1]], self.content_BKC.shape[1]
            order_K = torch.arange(K, device=h_TBH.device)
            written_TBK = (tape.written_TB.unsqueeze(2) == order_K).to(h_TBH.dtype)
            slopes_by_name["read_W_x_PD"] = over_time(self.dcommon_TBP, trained.x_TBD)
            slopes_by_name["read_b_P"] = self.dcommon_TBP.sum((0, 1))
            slopes_by_name["read_W_h_PH"] = over_time(self.dcommon_TBP, h_TBH)
            slopes_by_name["read_W_u_PK"] = over_time(self.dcommon_TBP, tape.usage_TBK)
            slopes_by_name["read_W_c_PC"] = over_time(self.drow_TBP, tape.micro_TBC)
            slopes_by_name["address_KP"] = over_time(
                written_TBK, self.drow_TBP
            ) + self.dcells_BKP.sum(0)
            slopes_by_name["a_P"] = self.da_P
            if trained.content_BKC is not None:
                slopes_by_name["read_W_c_PC"] += over_time(self.dcells_BKP, trained.content_BKC)
                if self.fixed.attached:
                    self.dcontent_BKC += self.dcells_BKP @ trained.read_W_c_PC
            if self.temperature:
                slopes_by_name["w_tau_1H"] = over_time(self.dtau_TB1, h_TBH)
                slopes_by_name["b_tau_1"] = self.dtau_TB1.sum((0, 1))
        if trained.content_BKC is not None:
            slopes_by_name["content_BKC"] = self.dcontent_BKC
        return slopes_by_name


class Slopes(NamedTuple):
    """Gradients that the controller gathers on the way."""

    z_TBG: Tensor  # in the order of the tape
    gain_4H: Maybe = None
    bias_4H: Maybe = None


def _cell(
    t: int, dh_BH: Tensor, dc_BH: Tensor, trained: Trained, fixed: Fixed, tape: Tape, slopes: Slopes
) -> Tensor:
    """Back through c = f c + i g, h = o tanh(c) and the gates; returns the gradient of c before."""
    H = dh_BH.shape[1]
    z_B4H, dz_B4H = (
        each[t, :, -4 * H :].unflatten(1, (4, H)) for each in (tape.z_TBG, slopes.z_TBG)
    )
    made_B4H = z_B4H if trained.gain_4H is None else gates(z_B4H, trained)
    f, i, o, g = made_B4H.unbind(1)
    dropout = None if fixed.dropout_TBH is None else fixed.dropout_TBH[t]
    dropped = g if dropout is None else g * dropout
    squashed = torch.addcmul(f * tape.c_TBH[t], i, dropped).tanh_()
    dc_BH = dc_BH + dh_BH * o * (1 - squashed.square())
    dz_B4H[:, 0] = dc_BH * tape.c_TBH[t]
    dz_B4H[:, 1] = dc_BH * dropped
    dz_B4H[:, 2] = dh_BH * squashed
    dz_B4H[:, :3] *= made_B4H[:, :3] * (1 - made_B4H[:, :3])
    dcandidate = dc_BH * i if dropout is None else dc_BH * i * dropout
    dz_B4H[:, 3] = dcandidate * (1 - g.square())
    if trained.gain_4H is not None:
        slopes.bias_4H.add_(dz_B4H.sum(0))
        slopes.gain_4H.add_((dz_B4H * z_B4H).sum(0))
        d_B4H = dz_B4H * trained.gain_4H
        along = (d_B4H * z_B4H).mean(2, keepdim=True)
        centred = d_B4H - d_B4H.mean(2, keepdim=True)
        dz_B4H.copy_((centred - z_B4H * along) * tape.deviation_TB41[t])
    return dc_BH * f


def _sources(
    t: int, W_GS: Tensor, fixed: Fixed, tape: Tape, dz_BG: Tensor, incoming: Outputs
) -> Tensor:
    """Back through the products with [h | r] and the RESET gates: the gradient of [h | r]."""
    if not fixed.reset:
        return dz_BG @ W_GS
    H = tape.c_TBH.shape[2]
    early = dz_BG.shape[1] - H
    reset_B2, hr_BS = tape.reset_TB2[t], tape.hr_TBS[t]
    scaled_BS = dz_BG[:, early:] @ W_GS[early:]
    both_BS = scaled_BS * hr_BS  # dz . W_r r = W_r^T dz . r
    dreset_B2 = torch.stack([both_BS[:, H:].sum(1), both_BS[:, :H].sum(1)], 1)
    if incoming.reset_TB2 is not None:
        dreset_B2 = dreset_B2 + incoming.reset_TB2[t]
    dz_BG[:, : reset_B2.shape[1]] = dreset_B2 * reset_B2 * (1 - reset_B2) / RESET_TEMPERATURE
    return torch.addmm(scaled_by_reset(scaled_BS, reset_B2, H), dz_BG[:, :early], W_GS[:early])


def backward(trained: Trained, fixed: Fixed, tape: Tape, incoming: Outputs) -> Trained:
    """The gradients of all that is trained; None where there is none."""
    T, H = trained.x_TBD.shape[0], trained.W_h_GH.shape[1]
    slopes = Slopes(torch.empty_like(tape.z_TBG))
    if trained.gain_4H is not None:
        slopes = slopes._replace(
            gain_4H=torch.zeros_like(trained.gain_4H), bias_4H=torch.zeros_like(trained.gain_4H)
        )
    memory = None if trained.W_m_CH is None else MemoryBackward(trained, fixed, tape, incoming)
    W_GS = read_and_hidden_weights(trained)
    dh_BH, dc_BH = start(incoming.h_BH, trained.h_BH), start(incoming.c_BH, trained.c_BH)
    for t in reversed(range(T)):
        mask_B = None if fixed.mask_TB is None else fixed.mask_TB[t]
        held = None
        if mask_B is not None:  # a masked step changes no state
            off_B1 = mask_B.logical_not().unsqueeze(1)
            held = torch.where(off_B1, dh_BH, 0), torch.where(off_B1, dc_BH, 0)
            dh_BH, dc_BH = dh_BH.masked_fill(off_B1, 0), dc_BH.masked_fill(off_B1, 0)
        if incoming.h_TBH is not None:
            dh_BH = dh_BH + incoming.h_TBH[t]
        if memory is not None:
            dh_BH = dh_BH + memory.unwrite(t, mask_B)
        dc_BH = _cell(t, dh_BH, dc_BH, trained, fixed, tape, slopes)
        dhr_BS = _sources(t, W_GS, fixed, tape, slopes.z_TBG[t], incoming)
        dh_BH = dhr_BS[:, :H]
        part_BH = None if memory is None else memory.unread(t, dhr_BS[:, H:])
        dh_BH = dh_BH if part_BH is None else dh_BH + part_BH
        if held is not None:
            dh_BH, dc_BH = dh_BH + held[0], dc_BH + held[1]
    slopes_by_name = {"h_BH": dh_BH, "c_BH": dc_BH}
    slopes_by_name |= _controller_weights(trained, fixed, tape, slopes)
    slopes_by_name |= {} if memory is None else memory.weights()
    if trained.x_TBD.requires_grad:
        slopes_by_name["x_TBD"] = slopes.z_TBG @ reset_first(trained.W_x_GD, trained)
        if memory is not None and memory.addressed and fixed.attached:
            slopes_by_name["x_TBD"] += memory.dcommon_TBP @ trained.read_W_x_PD
    return Trained._make(slopes_by_name.get(name) for name in Trained._fields)


def _controller_weights(
    trained: Trained, fixed: Fixed, tape: Tape, slopes: Slopes
) -> dict[str, Tensor]:
    G, H = trained.W_h_GH.shape
    dz_TBG, R = slopes.z_TBG, G - 4 * H
    if fixed.reset:  # the candidate has seen [beta h | alpha r]
        early = dz_TBG[..., :-H]
        scaled_TBS = scaled_by_reset(tape.hr_TBS, tape.reset_TB2, H)
        dW_GS = torch.cat([over_time(early, tape.hr_TBS), over_time(dz_TBG[..., -H:], scaled_TBS)])
    else:
        dW_GS = over_time(dz_TBG, tape.hr_TBS)
    db_G = dz_TBG.sum((0, 1)).roll(-R)
    slopes_by_name = {"W_x_GD": over_time(dz_TBG, trained.x_TBD).roll(-R, 0)}
    slopes_by_name["W_h_GH"] = dW_GS[:, :H].roll(-R, 0)
    if trained.W_r_GQ is not None:
        slopes_by_name["W_r_GQ"] = dW_GS[:, H:].roll(-R, 0)
    if trained.gain_4H is not None:  # what is normalised gets its bias afterwards
        db_G[: 4 * H] = slopes.bias_4H.flatten()
        slopes_by_name["gain_4H"] = slopes.gain_4H
    return slopes_by_name | {"b_G": db_G}
