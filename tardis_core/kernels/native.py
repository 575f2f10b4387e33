"""The sequence by native code on the CPU, as one function with a gradient.

The matrices that see the whole sequence at once (inputs, weight gradients) are multiplied by torch;
what depends on the step before is native. Equations and letters are those of `tardis_core.models`.
"""

import itertools
import math
from typing import Any, ClassVar, NamedTuple

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


class _Sizes(NamedTuple):
    """The sizes and switches of `library.Problem`, in its order."""

    T: int
    B: int
    H: int
    K: int
    A: int
    C: int
    P: int
    reset: bool
    norm: bool
    soft: bool
    attached: bool
    keep: bool
    shares: int

    @classmethod
    def of(cls, trained: Trained, fixed: Fixed, keep: bool) -> "_Sizes":
        T, B, _ = trained.x_TBD.shape
        K, A = (0, 0) if fixed.address_KA is None else fixed.address_KA.shape
        return cls(
            T=T,
            B=B,
            H=trained.W_h_GH.shape[1],
            K=K,
            A=A,
            C=len(trained.W_m_CH) if K else 0,
            P=len(trained.a_P) if K else 0,
            reset=fixed.reset,
            norm=trained.gain_4H is not None,
            soft=trained.w_tau_1H is not None,
            attached=fixed.attached,
            keep=keep,
            shares=max(1, min(torch.get_num_threads(), B)),
        )


def _inputs(trained: Trained, fixed: Fixed) -> Tensors:
    """What goes in, by the names of `library.Problem`."""
    names = {
        "W_h_GH": trained.W_h_GH,
        "W_r_GQ": trained.W_r_GQ,
        "b_G": trained.b_G,
        "gain_4H": trained.gain_4H,
        "W_m_CH": trained.W_m_CH,
        "read_W_h_PH": trained.read_W_h_PH,
        "read_W_c_PC": trained.read_W_c_PC,
        "read_W_u_PK": trained.read_W_u_PK,
        "address_KP": trained.address_KP,
        "a_P": trained.a_P,
        "w_tau_H": trained.w_tau_1H,
        "b_tau": trained.b_tau_1,
        "address_KA": fixed.address_KA,
        "read_noise_TBK": fixed.read_noise_TBK,
        "reset_noise_TB2": fixed.reset_noise_TB2,
        "dropout_TBH": fixed.dropout_TBH,
        "mask_TB": fixed.mask_TB,
        "h0_BH": trained.h_BH,
        "c0_BH": trained.c_BH,
        "content0_BKC": trained.content_BKC,
        "reads0_BK": fixed.reads_BK,
        "last0_BK": fixed.last_read_BK,
        "steps0_B": fixed.steps_B,
    }
    return {name: each.contiguous() for name, each in names.items() if each is not None}


def _forward(
    trained: Trained, fixed: Fixed, keep: bool
) -> tuple[Outputs, _Sizes, Tensors, _Workspace]:
    sizes = _Sizes.of(trained, fixed, keep)
    T, B, H, K, _, C, P, *_ = sizes
    x, G, N = trained.x_TBD, len(trained.b_G), T * B
    workspace = _Workspace(x, (T, B, G), (T, B, P), (T + 1 if keep else 1, B, H))
    gates_TBG, common_TBP, c_TBH = workspace.tensors

    # What does not depend on the step before; the kernel overwrites it.
    x_ND, W_x_DG = x.reshape(N, -1), trained.W_x_GD.t()
    if sizes.norm:  # the bias comes after it
        torch.mm(x_ND, W_x_DG, out=gates_TBG.view(N, G))
    else:
        torch.addmm(trained.b_G, x_ND, W_x_DG, out=gates_TBG.view(N, G))
    if K:
        torch.addmm(trained.read_b_P, x_ND, trained.read_W_x_PD.t(), out=common_TBP.view(N, P))
    made: Tensors = {
        "gates_TBG": gates_TBG,
        "common_TBP": common_TBP,
        "c_TBH": c_TBH,
        "h_TBH": x.new_empty(T + 1, B, H),
    }
    if fixed.mask_TB is not None:
        made["h_out_TBH"] = x.new_empty(T, B, H)
    if keep and sizes.norm:
        made["norm_scale_TB4"] = x.new_empty(T, B, 4)
    final: Tensors = {"h_BH": x.new_empty(B, H), "c_BH": x.new_empty(B, H)}
    if K:
        made |= _memory_buffers(sizes, x)
        final |= {
            "content_BKC": x.new_empty(B, K, C),
            "reads_BK": x.new_empty(B, K),
            "last_BK": x.new_empty(B, K),
            "steps_B": x.new_empty(B, dtype=torch.int64),
        }
    library.run(sizes, _inputs(trained, fixed) | made | final, backward=False)
    if not keep:
        workspace.give_back()

    outputs = Outputs(
        h_TBH=made["h_out_TBH"] if "h_out_TBH" in made else made["h_TBH"][1:],
        r_TBQ=made.get("r_TBQ"),
        pi_TBK=made.get("pi_TBK"),
        reset_TB2=made.get("reset_TB2"),
        h_BH=final["h_BH"],
        c_BH=final["c_BH"],
        content_BKC=final.get("content_BKC"),
        read_TB=made.get("read_TB"),
        written_TB=made.get("written_TB"),
        reads_BK=final.get("reads_BK"),
        last_read_BK=final.get("last_BK"),
        steps_B=final.get("steps_B"),
    )
    if K:
        made["content_BKC"] = final["content_BKC"]
    return outputs, sizes, made, workspace


def _memory_buffers(sizes: _Sizes, like: Tensor) -> Tensors:
    """What the memory makes and needs of a sequence."""
    T, B, _, K, A, C, *_ = sizes
    made: Tensors = {
        "r_TBQ": like.new_empty(T, B, A + C),
        "pi_TBK": like.new_empty(T, B, K),
        "read_TB": like.new_empty(T, B, dtype=torch.int64),
        "written_TB": like.new_empty(T, B, dtype=torch.int64),
    }
    if sizes.reset:
        made["reset_TB2"] = like.new_empty(T, B, 2)
    if sizes.keep:
        made["micro_TBC"] = like.new_empty(T, B, C)
        made["usage_scale_TB"] = like.new_empty(T, B)
        made["before_TB"] = like.new_empty(T, B, dtype=torch.int32)
        if sizes.soft:
            made["tau_TB"] = like.new_empty(T, B)
    return made


def _backward(
    trained: Trained, fixed: Fixed, sizes: _Sizes, kept: Tensors, gradients: Outputs
) -> Trained:
    """The gradients of all that is trained; None where there is none."""
    T, B, H, K, _, C, P, *_ = sizes
    like = trained.x_TBD
    # Without a gradient of the choice or of the logits, the addressing has none.
    addressed = K > 0 and (sizes.soft or gradients.pi_TBK is not None)

    def start(tensor: Tensor | None, *shape: int) -> Tensor:
        if tensor is None:
            return like.new_zeros(shape)
        return tensor.clone(memory_format=torch.contiguous_format)

    made: Tensors = {"dh_BH": start(gradients.h_BH, B, H), "dc_BH": start(gradients.c_BH, B, H)}
    if sizes.norm:
        made["dgain_4H"], made["dbias_4H"] = like.new_zeros(2, 4 * H)
    if K:
        made["dcontent_BKC"] = start(gradients.content_BKC, B, K, C)
        made["dmicro_TBC"] = like.new_empty(T, B, C)
    if addressed:
        made["drow_TBP"] = like.new_empty(T, B, P)
        made["da_P"] = like.new_zeros(P)
        made["daddress_KP"] = like.new_zeros(K, P)
        made["dW_u_PK"] = like.new_zeros(P, K)
        if trained.content_BKC is not None:
            made["drow0_BKP"] = like.new_empty(B, K, P)
        if sizes.soft:
            made["dtau_TB"] = like.new_empty(T, B)
    names = {
        "dh_out_TBH": gradients.h_TBH,
        "dr_TBQ": gradients.r_TBQ,
        "dpi_TBK": gradients.pi_TBK,
        "dreset_TB2": gradients.reset_TB2,
    }
    incoming = {name: each.contiguous() for name, each in names.items() if each is not None}
    library.run(sizes, _inputs(trained, fixed) | kept | incoming | made, backward=True)

    everything = kept | made
    # A column of ones beside x: the gradient of the bias comes with that of the weights.
    x_ND = like.reshape(T * B, -1)
    x_NE = torch.cat([x_ND, x_ND.new_ones(T * B, 1)], dim=1)
    found = _controller_gradients(trained, sizes, everything, x_NE)
    if K:
        found |= _memory_gradients(trained, everything, x_NE, addressed)
    if addressed and fixed.attached and "x_TBD" in found:
        found["x_TBD"] += everything["common_TBP"] @ trained.read_W_x_PD
    given = trained._asdict().items()
    return Trained._make(None if each is None else found.get(name) for name, each in given)


def _weight_gradient(dz_NG: Tensor, x_ND: Tensor) -> Tensor:
    """The gradient of W in z = W x; a narrow matrix is faster on the left."""
    return dz_NG.t() @ x_ND if x_ND.shape[1] > 256 else (x_ND.t() @ dz_NG).t()


def _controller_gradients(trained: Trained, sizes: _Sizes, found: Tensors, x_NE: Tensor) -> Tensors:
    H, N = sizes.H, sizes.T * sizes.B
    dz_NG = found["gates_TBG"].view(N, -1)
    W_x_GE = _weight_gradient(dz_NG, x_NE)
    made: Tensors = {
        "W_x_GD": W_x_GE[:, :-1],
        "b_G": W_x_GE[:, -1],
        "h_BH": found["dh_BH"],
        "c_BH": found["dc_BH"],
    }
    if trained.x_TBD.requires_grad:
        made["x_TBD"] = (dz_NG @ trained.W_x_GD).view_as(trained.x_TBD)
    if trained.gain_4H is not None:
        made["gain_4H"] = found["dgain_4H"].view_as(trained.gain_4H)
        made["b_G"][: 4 * H] = found["dbias_4H"]
    if trained.W_r_GQ is not None:
        r_NQ = found["r_TBQ"].view(N, -1)
        if sizes.reset:  # the candidate saw alpha r and beta h
            alpha_N1, beta_N1 = found["reset_TB2"].view(N, 2).split(1, dim=1)
            parts = [
                _weight_gradient(dz_NG[:, : 3 * H], r_NQ),
                _weight_gradient(dz_NG[:, 3 * H : 4 * H], r_NQ * alpha_N1),
                _weight_gradient(dz_NG[:, 4 * H :], r_NQ),
            ]
            made["W_r_GQ"] = torch.cat(parts)
            dz_NG[:, 3 * H : 4 * H] *= beta_N1
        else:
            made["W_r_GQ"] = _weight_gradient(dz_NG, r_NQ)
    made["W_h_GH"] = _weight_gradient(dz_NG, found["h_TBH"][:-1].view(N, H))
    return made


def _memory_gradients(trained: Trained, found: Tensors, x_NE: Tensor, addressed: bool) -> Tensors:
    h_TBH = found["h_TBH"]
    new_h_TBH = found.get("h_out_TBH", h_TBH[1:])
    made: Tensors = {
        "W_m_CH": found["dmicro_TBC"].flatten(0, 1).t() @ new_h_TBH.flatten(0, 1),
        "content_BKC": found["dcontent_BKC"],
    }
    if not addressed:
        return made
    h_NH = h_TBH[:-1].flatten(0, 1)
    dz_NP, drow_NP = found["common_TBP"].flatten(0, 1), found["drow_TBP"].flatten(0, 1)
    W_x_PE = _weight_gradient(dz_NP, x_NE)
    W_c_PC = drow_NP.t() @ found["micro_TBC"].flatten(0, 1)
    if trained.content_BKC is not None:
        W_c_PC += found["drow0_BKP"].flatten(0, 1).t() @ trained.content_BKC.flatten(0, 1)
    made |= {
        "read_W_x_PD": W_x_PE[:, :-1],
        "read_b_P": W_x_PE[:, -1],
        "read_W_h_PH": dz_NP.t() @ h_NH,
        "read_W_c_PC": W_c_PC,
        "read_W_u_PK": found["dW_u_PK"],
        "address_KP": found["daddress_KP"],
        "a_P": found["da_P"],
    }
    if "dtau_TB" in found:
        dtau_1N = found["dtau_TB"].view(1, -1)
        made |= {"w_tau_1H": dtau_1N @ h_NH, "b_tau_1": dtau_1N.sum(1)}
    return made
