"""A whole sequence forward in torch operations, and what is left for the way back.

Letters as in `inputs`; R = 2 with RESET gates, else 0; S = H + Q. No number is ever needed on the
host: choices and masks stay tensors, so a GPU never waits and the work can be captured in a graph.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from tardis_core.kernels.inputs import Fixed, Maybe, Outputs, Trained

# The model's own constants, written out again as in native/forward.h: a comparison with the
# readable model proves something only if both have their own.
RESET_GATES = 2
RESET_TEMPERATURE = 0.3
LAST_READ_PENALTY = 100.0
NORM_EPSILON = 1e-5


class Tape(NamedTuple):
    """What backward needs beside the inputs; None where the model has no such part."""

    z_TBG: Tensor  # alpha, beta's logits, then f, i, o, g (normalised: before gain and bias)
    hr_TBS: Tensor  # [h | r] that the step saw
    c_TBH: Tensor  # that the step saw
    h_out_TBH: Tensor
    deviation_TB41: Maybe  # one over the deviation of each gate, with layer normalisation
    pi_TBK: Maybe = None
    reset_TB2: Maybe = None
    common_TBP: Maybe = None  # the read logits' part that all cells share
    usage_TBK: Maybe = None
    micro_TBC: Maybe = None  # W_m h
    overwritten_TBC: Maybe = None  # what the written cell held before
    read_TB: Maybe = None
    written_TB: Maybe = None
    content_BKC: Maybe = None  # after the last step


def reset_first(weights: Tensor, trained: Trained) -> Tensor:
    """The rows of the gates in the order of the tape: alpha, beta, f, i, o, g."""
    H = trained.W_h_GH.shape[1]
    return weights.roll(weights.shape[0] - 4 * H, 0)


def read_and_hidden_weights(trained: Trained) -> Tensor:
    """What [h | r] is multiplied by: W_GS, in the order of the tape."""
    parts = [trained.W_h_GH] if trained.W_r_GQ is None else [trained.W_h_GH, trained.W_r_GQ]
    return reset_first(torch.cat(parts, 1), trained)


def at_cell(place_B: Tensor, width: int) -> Tensor:
    """The index of one cell per sample, for gather and scatter on a BK* tensor."""
    return place_B.view(-1, 1, 1).expand(-1, 1, width)


def scaled_by_reset(hr: Tensor, reset: Tensor, H: int) -> Tensor:
    """[beta h | alpha r], of one step or of all."""
    scaled = torch.empty_like(hr)
    torch.mul(hr[..., :H], reset[..., 1:], out=scaled[..., :H])
    torch.mul(hr[..., H:], reset[..., :1], out=scaled[..., H:])
    return scaled


class Memory:
    """The memory on its way through the sequence, with the projected cells kept beside it."""

    def __init__(self, trained: Trained, fixed: Fixed, tape: Tape) -> None:
        B = trained.x_TBD.shape[1]
        new = trained.x_TBD
        self.trained, self.fixed, self.tape = trained, fixed, tape
        self.K = fixed.address_KA.shape[0]
        if trained.content_BKC is None:
            self.content_BKC = new.new_zeros(B, self.K, trained.W_m_CH.shape[0])
            self.reads_BK, self.last_BK = new.new_zeros(2, B, self.K).unbind()
            self.steps_B = torch.zeros(B, dtype=torch.int64, device=new.device)
        else:
            self.content_BKC = trained.content_BKC.clone()
            self.reads_BK, self.last_BK = fixed.reads_BK, fixed.last_read_BK
            self.steps_B = fixed.steps_B
        self.cells_BKP = F.linear(self.content_BKC, trained.read_W_c_PC) + trained.address_KP
        self.order_K = torch.arange(self.K, device=new.device)
        tape.common_TBP.copy_(F.linear(trained.x_TBD, trained.read_W_x_PD, trained.read_b_P))

    def read(self, t: int, h_BH: Tensor, r_BQ: Tensor) -> Tensor:
        """Eqs. (1), (4) and (6): choose a cell and read it into r; returns the cell."""
        trained, tape, noise = self.trained, self.tape, self.fixed.read_noise_TBK
        u_BK = F.layer_norm(self.reads_BK, (self.K,))
        tape.usage_TBK[t] = u_BK
        common_BP = tape.common_TBP[t]
        common_BP.addmm_(h_BH, trained.read_W_h_PH.t()).addmm_(u_BK, trained.read_W_u_PK.t())
        logits_BK = (self.cells_BKP + common_BP.unsqueeze(1)).tanh_() @ trained.a_P
        pi_BK = tape.pi_TBK[t]
        torch.sub(logits_BK, self.last_BK, alpha=LAST_READ_PENALTY, out=pi_BK)
        read_B = torch.argmax(pi_BK if noise is None else pi_BK + noise[t], 1)
        tape.read_TB[t] = read_B
        A = self.fixed.address_KA.shape[1]
        r_BQ[:, :A] = self.fixed.address_KA.index_select(0, read_B)
        r_BQ[:, A:] = self.content_BKC.gather(1, at_cell(read_B, r_BQ.shape[1] - A)).squeeze(1)
        return read_B

    def write(self, t: int, h_BH: Tensor, read_B: Tensor, mask_B: Tensor | None) -> None:
        """Eq. (2): the micro-state goes to the next free cell, or else to the one just read."""
        trained, tape = self.trained, self.tape
        micro_BC = torch.mm(h_BH, trained.W_m_CH.t(), out=tape.micro_TBC[t])
        place_B = torch.where(self.steps_B < self.K, self.steps_B, read_B)
        tape.written_TB[t] = place_B
        cell = at_cell(place_B, micro_BC.shape[1])
        before_BC = self.content_BKC.gather(1, cell).squeeze(1)
        tape.overwritten_TBC[t] = before_BC
        hot_BK = (self.order_K == read_B.unsqueeze(1)).to(micro_BC.dtype)
        if mask_B is None:
            self.reads_BK, self.last_BK = self.reads_BK + hot_BK, hot_BK
            self.steps_B = self.steps_B + 1
        else:
            mask_B1 = mask_B.unsqueeze(1)
            micro_BC = torch.where(mask_B1, micro_BC, before_BC)
            self.reads_BK = self.reads_BK + hot_BK * mask_B1
            self.last_BK = torch.where(mask_B1, hot_BK, self.last_BK)
            self.steps_B = self.steps_B + mask_B
        self.content_BKC.scatter_(1, cell, micro_BC.unsqueeze(1))
        put_cell(self.cells_BKP, trained, place_B, micro_BC)


def put_cell(cells_BKP: Tensor, trained: Trained, place_B: Tensor, content_BC: Tensor) -> None:
    """Renew the projection of one cell: W_m M of its content and its address."""
    address_BP = trained.address_KP.index_select(0, place_B)
    row_BP = torch.addmm(address_BP, content_BC, trained.read_W_c_PC.t())
    cells_BKP.scatter_(1, at_cell(place_B, row_BP.shape[1]), row_BP.unsqueeze(1))


def _tape(trained: Trained, fixed: Fixed) -> Tape:
    """An empty tape, but for W_x x + b, which z begins with."""
    T, B, _ = trained.x_TBD.shape
    G, H = trained.W_h_GH.shape
    Q = 0 if trained.W_r_GQ is None else trained.W_r_GQ.shape[1]
    new: Any = trained.x_TBD.new_empty
    b_G = reset_first(trained.b_G, trained)
    if trained.gain_4H is not None:  # the bias of the gates comes after the normalisation
        b_G = torch.cat([b_G[: G - 4 * H], torch.zeros_like(b_G[G - 4 * H :])])
    tape = Tape(
        z_TBG=F.linear(trained.x_TBD, reset_first(trained.W_x_GD, trained), b_G),
        hr_TBS=new(T, B, H + Q),
        c_TBH=new(T, B, H),
        h_out_TBH=new(T, B, H),
        deviation_TB41=None if trained.gain_4H is None else new(T, B, 4, 1),
        reset_TB2=new(T, B, RESET_GATES) if fixed.reset else None,
    )
    if not Q:
        return tape
    K, P, C = fixed.address_KA.shape[0], trained.a_P.shape[0], trained.W_m_CH.shape[0]
    return tape._replace(
        pi_TBK=new(T, B, K),
        common_TBP=new(T, B, P),
        usage_TBK=new(T, B, K),
        micro_TBC=new(T, B, C),
        overwritten_TBC=new(T, B, C),
        read_TB=new(T, B, dtype=torch.int64),
        written_TB=new(T, B, dtype=torch.int64),
    )


def gates(z_B4H: Tensor, trained: Trained) -> Tensor:
    """f, i, o, g of normalised pre-activations."""
    bias_4H = trained.b_G[: z_B4H[0].numel()].view_as(z_B4H[0])
    made_B4H = torch.addcmul(bias_4H, z_B4H, trained.gain_4H)
    made_B4H[:, :3].sigmoid_()
    made_B4H[:, 3].tanh_()
    return made_B4H


def _controller(
    t: int, c_BH: Tensor, W_GS: Tensor, trained: Trained, fixed: Fixed, tape: Tape
) -> Any:
    """Eqs. (7) to (10): the new h and c."""
    H, R = c_BH.shape[1], tape.z_TBG.shape[2] - 4 * c_BH.shape[1]
    z_BG, hr_BS = tape.z_TBG[t], tape.hr_TBS[t]
    if fixed.reset:
        early = R + 3 * H  # what does not need alpha and beta
        z_BG[:, :early].addmm_(hr_BS, W_GS[:early].t())
        noise = fixed.reset_noise_TB2
        logit_B2 = z_BG[:, :R] if noise is None else z_BG[:, :R] + noise[t]
        reset_B2 = torch.sigmoid(logit_B2 / RESET_TEMPERATURE)
        tape.reset_TB2[t] = reset_B2
        z_BG[:, early:].addmm_(scaled_by_reset(hr_BS, reset_B2, H), W_GS[early:].t())
    else:
        z_BG.addmm_(hr_BS, W_GS.t())
    z_B4H = z_BG[:, R:].unflatten(1, (4, H))
    if trained.gain_4H is None:
        z_B4H[:, :3].sigmoid_()
        z_B4H[:, 3].tanh_()
        f, i, o, g = z_B4H.unbind(1)
    else:
        normal_B4H, _, deviation = torch.native_layer_norm(z_B4H, (H,), None, None, NORM_EPSILON)
        z_B4H.copy_(normal_B4H)
        tape.deviation_TB41[t] = deviation
        f, i, o, g = gates(normal_B4H, trained).unbind(1)
    if fixed.dropout_TBH is not None:
        g = g * fixed.dropout_TBH[t]
    new_c_BH = torch.addcmul(f * c_BH, i, g)
    return torch.mul(o, new_c_BH.tanh(), out=tape.h_out_TBH[t]), new_c_BH


def forward(trained: Trained, fixed: Fixed) -> tuple[Outputs, Tape]:
    """Run Algorithm 1; the tensors of the tape are the outputs' own where they are the same."""
    T, H = trained.x_TBD.shape[0], trained.W_h_GH.shape[1]
    tape = _tape(trained, fixed)
    memory = None if trained.W_m_CH is None else Memory(trained, fixed, tape)
    W_GS = read_and_hidden_weights(trained)
    h_BH, c_BH = trained.h_BH, trained.c_BH
    for t in range(T):
        hr_BS, mask_B = tape.hr_TBS[t], None if fixed.mask_TB is None else fixed.mask_TB[t]
        hr_BS[:, :H] = h_BH
        tape.c_TBH[t] = c_BH
        read_B = None if memory is None else memory.read(t, h_BH, hr_BS[:, H:])
        new_h_BH, new_c_BH = _controller(t, c_BH, W_GS, trained, fixed, tape)
        if memory is not None and read_B is not None:
            memory.write(t, new_h_BH, read_B, mask_B)
        if mask_B is not None:
            new_h_BH = torch.where(mask_B.unsqueeze(1), new_h_BH, h_BH)
            new_c_BH = torch.where(mask_B.unsqueeze(1), new_c_BH, c_BH)
        h_BH, c_BH = new_h_BH, new_c_BH
    if memory is not None:
        tape = tape._replace(content_BKC=memory.content_BKC)
    return _outputs(h_BH, c_BH, memory, tape), tape


def _outputs(h_BH: Tensor, c_BH: Tensor, memory: Memory | None, tape: Tape) -> Outputs:
    H = h_BH.shape[1]
    return Outputs(
        h_TBH=tape.h_out_TBH,
        r_TBQ=None if memory is None else tape.hr_TBS[..., H:],
        pi_TBK=tape.pi_TBK,
        reset_TB2=tape.reset_TB2,
        h_BH=h_BH.clone(),  # not a piece of the sequence, which it would keep in memory
        c_BH=c_BH.clone(),
        content_BKC=tape.content_BKC,
        read_TB=tape.read_TB,
        written_TB=tape.written_TB,
        reads_BK=None if memory is None else memory.reads_BK,
        last_read_BK=None if memory is None else memory.last_BK,
        steps_B=None if memory is None else memory.steps_B,
    )
