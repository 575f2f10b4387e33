"""The sequence by native code on the CPU, as one function with a gradient."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from tardis_core.kernels import library, torch_sequence
from tardis_core.kernels.inputs import (
    Fixed,
    Outputs,
    Trained,
    check,
    choice_gradient,
    needed_backward,
    wants_gradient,
)

Tensors = dict[str, Tensor]  # by the names of `Problem` of native/problem.h

# What the trained tensors of the state are called there; the others keep their names.
_STATE = {"h_BH": "h0_BH", "c_BH": "c0_BH", "content_BKC": "content0_BKC"}
_TRAINED = tuple(_STATE.get(name, name) for name in Trained._fields)
_ADDRESSING = (
    *("read_W_x_PD", "read_b_P", "read_W_h_PH", "read_W_c_PC", "read_W_u_PK"),
    *("address_KP", "a_P", "w_tau_1H", "b_tau_1"),
)


def run(trained: Trained, fixed: Fixed) -> Outputs:
    """Run a sequence; the outputs are connected to the gradients of `trained`."""
    if not trained.x_TBD.numel():  # nothing has an address, and no address means "not there"
        return torch_sequence.run(trained, fixed)
    check(trained, fixed)
    if wants_gradient(trained):
        return Outputs._make(_Sequence.apply(fixed, *trained))
    return _forward(_sizes(trained, fixed, keep=False), trained, fixed, None)[0]


class _Tapes:
    """The memory of the last tape, for the next one.

    The operating system provides fresh memory page by page: a tenth of the time of a step.
    """

    _spare: ClassVar[list[Tensor]] = []  # at most one

    @classmethod
    def take(cls, numbers: int, like: Tensor) -> Tensor:
        """Room for a tape; it may be larger than asked for."""
        spare = cls._spare.pop() if cls._spare else None
        fits = spare is not None and spare.dtype == like.dtype
        if spare is not None and fits and numbers <= spare.numel() <= 4 * numbers:
            return spare
        return like.new_empty(numbers)

    @classmethod
    def give_back(cls, tape: Tensor) -> None:
        """Nothing on it is needed any more."""
        cls._spare[:] = [tape]


def _graph_is_kept() -> bool:
    """Whether the backward that is running was called with retain_graph=True."""
    ask = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return False if ask is None else ask()


class _Sequence(torch.autograd.Function):
    """Forward and backward of a whole sequence.

    Backward overwrites the tape that forward has left, to need no memory of its own. With
    retain_graph=True it works on a copy.
    """

    @staticmethod
    def forward(ctx: Any, fixed: Fixed, *tensors: Tensor | None) -> Any:
        trained = Trained._make(tensors)
        sizes = _sizes(trained, fixed, keep=True)
        ctx.tape = _Tapes.take(library.tape_size(sizes), trained.x_TBD)
        outputs, kept = _forward(sizes, trained, fixed, ctx.tape)
        ctx.fixed, ctx.sizes, ctx.names = needed_backward(trained, fixed), sizes, tuple(kept)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*trained, *kept.values())
        ctx.mark_non_differentiable(*outputs.choices())
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "the native kernel has no second derivative (create_graph=True); "
                "set model.backend=reference for that"
            )
        if ctx.tape is None:
            raise RuntimeError(
                "the native kernel has overwritten what a second backward through the same "
                "sequence needs; set model.backend=reference for that"
            )
        saved = ctx.saved_tensors
        trained = Trained._make(saved[: len(Trained._fields)])
        kept = dict(zip(ctx.names, saved[len(trained) :], strict=True))
        tape, keep = ctx.tape, _graph_is_kept()
        kept["tape"] = tape.clone() if keep else tape
        slopes = _backward(ctx.sizes, trained, ctx.fixed, kept, Outputs._make(gradients))
        if not keep:
            ctx.tape = None
            _Tapes.give_back(tape)
        return None, *slopes


def _sizes(trained: Trained, fixed: Fixed, keep: bool) -> library.Sizes:
    T, B, D = trained.x_TBD.shape
    K, A = (0, 0) if fixed.address_KA is None else fixed.address_KA.shape
    return library.Sizes(
        T=T,
        B=B,
        D=D,
        H=trained.W_h_GH.shape[1],
        K=K,
        A=A,
        C=trained.W_m_CH.shape[0] if K else 0,
        P=trained.a_P.shape[0] if K else 0,
        reset=fixed.reset,
        norm=trained.gain_4H is not None,
        soft=trained.w_tau_1H is not None,
        softmaxes=0,  # forward chooses without them
        attached=fixed.attached,
        keep=keep,
        threads=torch.get_num_threads(),
    )


def _level(fixed: Fixed) -> int | None:
    """The instruction set; None: the best one whose products are as precise as the state."""
    return None if fixed.product_dtype is None else library.bf16_level()


def rounding_obstacle(dtype: torch.dtype) -> str | None:
    """Why products cannot round their factors to this type, if they cannot."""
    if dtype != torch.bfloat16:
        return f"it cannot round to {str(dtype).removeprefix('torch.')}"
    if library.bf16_level() is None:
        return "this CPU has no instructions for bfloat16 (AVX512_BF16)"
    return None


def _inputs(trained: Trained, fixed: Fixed) -> Tensors:
    """The inputs by the names of `Problem`."""
    names: dict[str, Tensor | None] = dict(zip(_TRAINED, trained, strict=True))
    names |= {
        "address_KA": fixed.address_KA,
        "read_noise_TBK": fixed.read_noise_TBK,
        "reset_noise_TB2": fixed.reset_noise_TB2,
        "dropout_TBH": fixed.dropout_TBH,
        "mask_TB": fixed.mask_TB,
        "reads0_BK": fixed.reads_BK,
        "last0_BK": fixed.last_read_BK,
        "steps0_B": fixed.steps_B,
    }
    return {name: each.contiguous() for name, each in names.items() if each is not None}


def _forward(
    sizes: library.Sizes, trained: Trained, fixed: Fixed, tape: Tensor | None
) -> tuple[Outputs, Tensors]:
    """Run it; also returns what backward needs beside the tape."""
    T, B, _, H, K, A, C, *_ = sizes
    new, integers = trained.x_TBD.new_empty, torch.int64
    tensors: Tensors = {"h_TBH": new(T + 1, B, H)}  # the state before each step, and after the last
    final: Tensors = {"h_BH": new(B, H), "c_BH": new(B, H)}
    if fixed.mask_TB is not None:
        tensors["h_out_TBH"] = new(T, B, H)
    if K:
        tensors["r_TBQ"] = new(T, B, A + C)
        tensors["pi_TBK"] = new(T, B, K)
        tensors["read_TB"] = new(T, B, dtype=integers)
        tensors["written_TB"] = new(T, B, dtype=integers)
        final["content_BKC"] = new(B, K, C)
        final["reads_BK"] = new(B, K)
        final["last_BK"] = new(B, K)
        final["steps_B"] = new(B, dtype=integers)
    if sizes.reset:
        tensors["reset_TB2"] = new(T, B, 2)
    room = {} if tape is None else {"tape": tape}
    everything = _inputs(trained, fixed) | tensors | final | room
    library.run(sizes, everything, backward=False, level=_level(fixed))
    outputs = Outputs(
        h_TBH=tensors["h_out_TBH"] if "h_out_TBH" in tensors else tensors["h_TBH"][1:],
        r_TBQ=tensors.get("r_TBQ"),
        pi_TBK=tensors.get("pi_TBK"),
        reset_TB2=tensors.get("reset_TB2"),
        h_BH=final["h_BH"],
        c_BH=final["c_BH"],
        content_BKC=final.get("content_BKC"),
        read_TB=tensors.get("read_TB"),
        written_TB=tensors.get("written_TB"),
        reads_BK=final.get("reads_BK"),
        last_read_BK=final.get("last_BK"),
        steps_B=final.get("steps_B"),
    )
    if K:
        tensors |= {name: final[name] for name in ("content_BKC", "steps_B")}
    return outputs, tensors


def _backward(
    sizes: library.Sizes, trained: Trained, fixed: Fixed, kept: Tensors, gradients: Outputs
) -> Trained:
    """The gradients of all that is trained; None where there is none."""
    incoming = {
        "dh_out_TBH": gradients.h_TBH,
        "dr_TBQ": gradients.r_TBQ,
        "dpi_TBK": gradients.pi_TBK,
        "dreset_TB2": gradients.reset_TB2,
    }
    incoming = {name: each.contiguous() for name, each in incoming.items() if each is not None}
    softmaxes = choice_gradient(fixed, kept["pi_TBK"], kept["read_TB"]) if sizes.K else None
    if softmaxes is not None:
        sizes = sizes._replace(softmaxes=len(softmaxes.p_SBK))
        incoming |= {"p_STBK": softmaxes.p_SBK.contiguous(), "scale_S": softmaxes.scales()}
    # Without a gradient of the choice or of the logits, the addressing has none.
    addressed = sizes.soft or sizes.softmaxes > 0 or gradients.pi_TBK is not None

    slopes: dict[str, Tensor] = {}
    for name, each in trained._asdict().items():
        if each is None or (name in _ADDRESSING and not addressed):
            continue
        if name == "x_TBD" and not each.requires_grad:
            continue
        if name in _STATE:  # in: the gradient of the state at the end
            slopes[name] = _start(getattr(gradients, name), each)
        else:
            slopes[name] = each.new_empty(each.shape)
    if (
        "content_BKC" not in slopes and gradients.content_BKC is not None
    ):  # it was empty at the start
        kept["dcontent_BKC"] = _start(gradients.content_BKC, kept["content_BKC"])
    outgoing = {f"d{name}": each for name, each in slopes.items()}
    everything = _inputs(trained, fixed) | kept | incoming | outgoing
    library.run(sizes, everything, backward=True, level=_level(fixed))
    return Trained._make(slopes.get(name) for name in Trained._fields)


def _start(gradient: Tensor | None, like: Tensor) -> Tensor:
    """A gradient to be added to, beginning with the one given."""
    if gradient is None:
        return like.new_zeros(like.shape)
    return gradient.clone(memory_format=torch.contiguous_format)
