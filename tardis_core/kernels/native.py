"""The sequence by native code on the CPU, as one function with a gradient.

The matrices that see the whole sequence at once (inputs, weight gradients) are multiplied by torch;
what depends on the step before is native. Equations and letters are those of `tardis_core.models`.
"""

import itertools
import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from tardis_core.kernels import library
from tardis_core.kernels.inputs import Fixed, Outputs, Trained, check

Tensors = dict[str, Any]  # a tensor, or None where there is none


def run(trained: Trained, fixed: Fixed) -> Outputs:
    """Run a sequence; the outputs are connected to the gradients of `trained`."""
    check(trained, fixed)
    wanted = torch.is_grad_enabled() and any(
        each is not None and each.requires_grad for each in trained
    )
    if wanted:
        return Outputs._make(_Sequence.apply(fixed, *trained))
    with torch.no_grad():
        return _forward(trained, fixed, keep=False)[0]


class _Workspace:
    """Memory for the largest of what forward keeps; the next sequence takes it over.

    Fresh memory costs a visit of the operating system a page, a tenth of the time of a step.
    """

    _spare: ClassVar[list[Tensor]] = []  # at most one

    def __init__(self, like: Tensor, *shapes: tuple[int, ...]) -> None:
        ends = list(itertools.accumulate(-(-math.prod(shape) // 16) * 16 for shape in shapes))
        spare = [each for each in self._spare if each.dtype == like.dtype]
        self._spare.clear()
        fits = spare and ends[-1] <= spare[0].numel() <= 4 * ends[-1]
        self.memory = spare[0] if fits else like.new_empty(ends[-1])
        self.tensors = [
            self.memory[start : start + math.prod(shape)].view(shape)
            for start, shape in zip([0, *ends], shapes, strict=False)
        ]

    def give_back(self) -> None:
        """Nothing of it is needed any more."""
        self._spare[:] = [self.memory]


OVERWRITTEN = ("gates_TBG", "common_TBP")  # by backward


def _graph_is_kept() -> bool:
    """Whether the backward that is running was called with retain_graph=True."""
    ask = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return False if ask is None else ask()


class _Sequence(torch.autograd.Function):
    """Forward and backward of a whole sequence.

    Backward overwrites the two largest tensors that forward kept, to need no memory of its own.
    With retain_graph=True it works on copies of them.
    """

    @staticmethod
    def forward(ctx: Any, fixed: Fixed, *tensors: Tensor | None) -> Any:
        trained = Trained._make(tensors)
        outputs, sizes, kept, ctx.workspace = _forward(trained, fixed, keep=True)
        ctx.fixed, ctx.sizes, ctx.kept_names = fixed, sizes, tuple(kept)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*trained, *kept.values())
        ctx.mark_non_differentiable(*outputs.choices())
        ctx.overwritten = False
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "the native kernel has no second derivative (create_graph=True); "
                "set model.backend=reference for that"
            )
        if ctx.overwritten:
            raise RuntimeError(
                "the native kernel has overwritten what a second backward through the same "
                "sequence needs; set model.backend=reference for that"
            )
        saved = ctx.saved_tensors
        trained = Trained._make(saved[: len(Trained._fields)])
        kept = dict(zip(ctx.kept_names, saved[len(trained) :], strict=True))
        if _graph_is_kept():
            kept |= {name: kept[name].clone() for name in OVERWRITTEN if name in kept}
        else:
            ctx.overwritten = True
        made = _backward(trained, ctx.fixed, ctx.sizes, kept, Outputs._make(gradients))
        if ctx.overwritten:
            ctx.workspace.give_back()
        return None, *made


def _sizes(trained: Trained, fixed: Fixed, keep: bool) -> dict[str, int]:
    T, B, _ = trained.x_TBD.shape
    address, content = fixed.address_KA, trained.W_m_CH
    return {
        "T": T,
        "B": B,
        "H": trained.W_h_GH.shape[1],
        "K": 0 if address is None else address.shape[0],
        "A": 0 if address is None else address.shape[1],
        "C": 0 if content is None else content.shape[0],
        "P": 0 if trained.a_P is None else trained.a_P.shape[0],
        "reset": fixed.reset,
        "norm": trained.gain_4H is not None,
        "soft": trained.w_tau_1H is not None,
        "attached": fixed.attached,
        "keep": keep,
        "shares": max(1, min(torch.get_num_threads(), B)),
    }


def _weights(trained: Trained, fixed: Fixed) -> Tensors:
    """The weights as the native code reads them, and what else does not change."""
    H, W_u_PK = trained.W_h_GH.shape[1], trained.read_W_u_PK
    W_GS = trained.W_h_GH
    if trained.W_r_GQ is not None:
        W_GS = torch.cat([W_GS, trained.W_r_GQ], dim=1)
    # u is centred, so W_u can be: then W_u u is a sum over the reads, divided by their deviation.
    W_u_KP = None if W_u_PK is None else (W_u_PK - W_u_PK.mean(1, keepdim=True)).t()
    names: Tensors = {
        "W_GS": W_GS,
        "gain_4H": trained.gain_4H,
        "bias_4H": trained.b_G[: 4 * H],
        "W_m_CH": trained.W_m_CH,
        "W_h_PH": trained.read_W_h_PH,
        "W_c_PC": trained.read_W_c_PC,
        "address_KP": trained.address_KP,
        "W_u_KP": W_u_KP,
        "a_P": trained.a_P,
        "w_tau_H": trained.w_tau_1H,
        "b_tau": trained.b_tau_1,
        "address_KA": fixed.address_KA,
        "read_noise_TBK": fixed.read_noise_TBK,
        "reset_noise_TB2": fixed.reset_noise_TB2,
        "dropout_TBH": fixed.dropout_TBH,
        "mask_TB": None if fixed.mask_TB is None else fixed.mask_TB.bool(),
        "content0_BKC": trained.content_BKC,
    }
    return {name: None if each is None else each.contiguous() for name, each in names.items()}


def _forward(
    trained: Trained, fixed: Fixed, keep: bool
) -> tuple[Outputs, dict[str, int], Tensors, _Workspace]:
    sizes = _sizes(trained, fixed, keep)
    T, B, H, K, P = (sizes[name] for name in ("T", "B", "H", "K", "P"))
    G, like = trained.b_G.shape[0], trained.x_TBD
    weights = _weights(trained, fixed)
    workspace = _Workspace(like, (T, B, G), (T, B, P), (T + 1 if keep else 1, B, H))
    gates_TBG, common_TBP, c_TBH = workspace.tensors

    # What does not depend on the step before: W_x x + b, which the kernel then overwrites.
    # With layer normalisation the bias of the gates comes after it.
    x_ND, b_G = like.reshape(T * B, -1), trained.b_G
    if trained.gain_4H is not None:
        b_G = torch.cat([torch.zeros_like(b_G[: 4 * H]), b_G[4 * H :]])
    torch.addmm(b_G, x_ND, trained.W_x_GD.t(), out=gates_TBG.view(T * B, G))
    if K:
        W_x_DP = trained.read_W_x_PD.t()
        torch.addmm(trained.read_b_P, x_ND, W_x_DP, out=common_TBP.view(T * B, P))
    h_TBH = like.new_empty(T + 1, B, H)
    h_TBH[0] = trained.h_BH
    c_TBH[0] = trained.c_BH
    made: Tensors = {
        "gates_TBG": gates_TBG,
        "common_TBP": common_TBP,
        "h_TBH": h_TBH,
        "c_TBH": c_TBH,
        "h_out_TBH": None if fixed.mask_TB is None else like.new_empty(T, B, H),
    }
    if keep and sizes["norm"]:
        made["norm_scale_TB4"] = like.new_empty(T, B, 4)
    state: Tensors = {}
    if K:
        made |= _memory_buffers(sizes, like)
        state = _memory_state(trained, fixed, sizes, like)
    usage0_BP = None
    if fixed.reads_BK is not None and weights["W_u_KP"] is not None:
        usage0_BP = fixed.reads_BK @ weights["W_u_KP"]
    library.run(sizes, weights | made | state | {"usage0_BP": usage0_BP}, backward=False)

    h_out_TBH = made["h_out_TBH"]
    outputs = Outputs(
        h_TBH=h_TBH[1:] if h_out_TBH is None else h_out_TBH,
        r_TBQ=made.get("r_TBQ"),
        pi_TBK=made.get("pi_TBK"),
        reset_TB2=made.get("reset_TB2"),
        # Copies, so that a state that is carried on does not keep the whole sequence alive.
        h_BH=h_TBH[T].clone(),
        c_BH=c_TBH[T if keep else 0].clone(),
        content_BKC=state.get("content_BKC"),
        read_TB=made.get("read_TB"),
        written_TB=made.get("written_TB"),
        reads_BK=state.get("reads_BK"),
        last_B=state.get("last_B"),
        steps_B=state.get("steps_B"),
    )
    if not keep:
        workspace.give_back()
    kept = {name: each for name, each in made.items() if each is not None}
    if K:
        kept["content_BKC"] = state["content_BKC"]
    return outputs, sizes, kept, workspace


def _memory_buffers(sizes: dict[str, int], like: Tensor) -> Tensors:
    """What the memory makes and needs of a sequence."""
    T, B, K, A, C = (sizes[name] for name in ("T", "B", "K", "A", "C"))
    integers = like.new_empty(2, T, B, dtype=torch.int64)
    made: Tensors = {
        "r_TBQ": like.new_empty(T, B, A + C),
        "pi_TBK": like.new_empty(T, B, K),
        "read_TB": integers[0],
        "written_TB": integers[1],
    }
    if sizes["reset"]:
        made["reset_TB2"] = like.new_empty(T, B, 2)
    if sizes["keep"]:
        made["micro_TBC"] = like.new_empty(T, B, C)
        made["usage_scale_TB"] = like.new_empty(T, B)
        made["before_TB"] = like.new_empty(T, B, dtype=torch.int32)
        if sizes["soft"]:
            made["tau_TB"] = like.new_empty(T, B)
    return made


def _memory_state(trained: Trained, fixed: Fixed, sizes: dict[str, int], like: Tensor) -> Tensors:
    """The memory at the start, in copies that become the memory at the end."""
    B, K, C = sizes["B"], sizes["K"], sizes["C"]

    if trained.content_BKC is None:
        return {
            "content_BKC": like.new_zeros(B, K, C),
            "reads_BK": like.new_zeros(B, K),
            "last_B": like.new_full((B,), -1, dtype=torch.int64),
            "steps_B": like.new_zeros(B, dtype=torch.int64),
        }
    given = {
        "content_BKC": trained.content_BKC,
        "reads_BK": fixed.reads_BK,
        "last_B": fixed.last_B,
        "steps_B": fixed.steps_B,
    }
    whole = torch.contiguous_format
    return {name: each.clone(memory_format=whole) for name, each in given.items()}


def _backward(
    trained: Trained,
    fixed: Fixed,
    sizes: dict[str, int],
    kept: Tensors,
    gradients: Outputs,
) -> Trained:
    """The gradients of all that is trained; None where there is none."""
    T, B, H, K, C, P = (sizes[name] for name in ("T", "B", "H", "K", "C", "P"))
    shares, like = sizes["shares"], trained.x_TBD
    # Without a gradient of the choice or of the logits, the addressing has none.
    addressed = bool(K) and (bool(sizes["soft"]) or gradients.pi_TBK is not None)
    carried = trained.content_BKC is not None

    def start(tensor: Tensor | None, *shape: int) -> Tensor:
        if tensor is None:
            return like.new_zeros(shape)
        return tensor.clone(memory_format=torch.contiguous_format)

    made: Tensors = {
        "dh_BH": start(gradients.h_BH, B, H),
        "dc_BH": start(gradients.c_BH, B, H),
    }
    if sizes["norm"]:
        made["dgain_1_4H"] = like.new_zeros(shares, 4 * H)
        made["dbias_1_4H"] = like.new_zeros(shares, 4 * H)
    if K:
        made["dcontent_BKC"] = start(gradients.content_BKC, B, K, C)
        made["dmicro_TBC"] = like.new_empty(T, B, C)
    if addressed:
        made["drow_TBP"] = like.new_empty(T, B, P)
        made["dusage_BP"] = like.new_zeros(B, P)
        made["da_1P"] = like.new_zeros(shares, P)
        made["daddress_1KP"] = like.new_zeros(shares, K, P)
        made["dW_u_1KP"] = like.new_zeros(shares, K, P)
        if carried:
            made["drow0_BKP"] = like.new_empty(B, K, P)
        if sizes["soft"]:
            made["dtau_TB"] = like.new_empty(T, B)
    incoming: Tensors = {
        "dh_out_TBH": gradients.h_TBH,
        "dr_TBQ": gradients.r_TBQ,
        "dpi_TBK": gradients.pi_TBK,
        "dreset_TB2": gradients.reset_TB2,
    }
    incoming = {name: None if g is None else g.contiguous() for name, g in incoming.items()}
    library.run(sizes, _weights(trained, fixed) | kept | incoming | made, backward=True)
    everything = {name: each for name, each in (kept | made).items() if each is not None}
    found = _controller_gradients(trained, fixed, sizes, everything)
    if K:
        found |= _memory_gradients(trained, fixed, everything, addressed)
    if addressed and fixed.attached and "x_TBD" in found:
        found["x_TBD"] += everything["common_TBP"] @ trained.read_W_x_PD
    given = trained._asdict().items()
    return Trained._make(None if each is None else found.get(name) for name, each in given)


def _controller_gradients(
    trained: Trained, fixed: Fixed, sizes: dict[str, int], found: Tensors
) -> Tensors:
    T, B, H = sizes["T"], sizes["B"], sizes["H"]
    N = T * B
    dz_NG = found["gates_TBG"].view(N, -1)
    h_NH = found["h_TBH"][:T].view(N, H)
    W_x_GD, b_G = _linear_gradients(dz_NG, trained.x_TBD)
    made: Tensors = {"W_x_GD": W_x_GD, "b_G": b_G, "h_BH": found["dh_BH"], "c_BH": found["dc_BH"]}
    if trained.x_TBD.requires_grad:
        made["x_TBD"] = (dz_NG @ trained.W_x_GD).view_as(trained.x_TBD)
    if trained.gain_4H is not None:
        made["gain_4H"] = found["dgain_1_4H"].sum(0).view_as(trained.gain_4H)
        b_G[: 4 * H] = found["dbias_1_4H"].sum(0)
    if trained.W_r_GQ is not None:
        r_NQ = found["r_TBQ"].view(N, -1)
        W_r_QG = r_NQ.new_empty(r_NQ.shape[1], dz_NG.shape[1])
        seen_NQ = r_NQ
        if fixed.reset:  # the candidate saw alpha r and beta h
            reset_N2 = found["reset_TB2"].view(N, 2)
            seen_NQ = r_NQ * reset_N2[:, :1]
        for part, gates in (
            (r_NQ, slice(3 * H)),
            (seen_NQ, slice(3 * H, 4 * H)),
            (r_NQ, slice(4 * H, None)),
        ):
            W_r_QG[:, gates] = part.t() @ dz_NG[:, gates]
        made["W_r_GQ"] = W_r_QG.t()
        if fixed.reset:
            dz_NG[:, 3 * H : 4 * H] *= reset_N2[:, 1:]
    made["W_h_GH"] = _weight_gradient(dz_NG, h_NH)
    return made


def _weight_gradient(dz_NG: Tensor, x_ND: Tensor) -> Tensor:
    """The gradient of W in z = W x; a narrow matrix is faster on the left."""
    return dz_NG.t() @ x_ND if x_ND.shape[1] > 256 else (x_ND.t() @ dz_NG).t()


def _linear_gradients(dz_NG: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of W and b in z = W x + b by one product, with a column of ones beside x."""
    x_ND = x.reshape(dz_NG.shape[0], -1)
    with_ones = torch.cat([x_ND, x_ND.new_ones(x_ND.shape[0], 1)], dim=1)
    W_GE = _weight_gradient(dz_NG, with_ones)
    return W_GE[:, :-1], W_GE[:, -1]


def _memory_gradients(trained: Trained, fixed: Fixed, found: Tensors, addressed: bool) -> Tensors:
    dmicro_TBC, h_TBH = found["dmicro_TBC"], found["h_TBH"]
    new_h_TBH = found.get("h_out_TBH", h_TBH[1:])
    made: Tensors = {
        "W_m_CH": dmicro_TBC.flatten(0, 1).t() @ new_h_TBH.flatten(0, 1),
        "content_BKC": found["dcontent_BKC"],
    }
    if not addressed:
        return made
    h_NH = h_TBH[:-1].flatten(0, 1)
    dz_NP, drow_NP = found["common_TBP"].flatten(0, 1), found["drow_TBP"].flatten(0, 1)
    W_c_PC = drow_NP.t() @ found["micro_TBC"].flatten(0, 1)
    W_u_KP = found["dW_u_1KP"].sum(0)
    if trained.content_BKC is not None:
        drow0_BKP = found["drow0_BKP"]
        W_c_PC += drow0_BKP.flatten(0, 1).t() @ trained.content_BKC.flatten(0, 1)
        W_u_KP += fixed.reads_BK.t() @ found["dusage_BP"]
        if fixed.attached:
            found["dcontent_BKC"] += drow0_BKP @ trained.read_W_c_PC
    read_W_x_PD, read_b_P = _linear_gradients(dz_NP, trained.x_TBD)
    made |= {
        "read_W_x_PD": read_W_x_PD,
        "read_b_P": read_b_P,
        "read_W_h_PH": dz_NP.t() @ h_NH,
        "read_W_c_PC": W_c_PC,
        "read_W_u_PK": (W_u_KP - W_u_KP.mean(0)).t(),
        "address_KP": found["daddress_1KP"].sum(0),
        "a_P": found["da_1P"].sum(0),
    }
    if "dtau_TB" in found:
        dtau_1N = found["dtau_TB"].view(1, -1)
        made |= {"w_tau_1H": dtau_1N @ h_NH, "b_tau_1": dtau_1N.sum(1)}
    return made
