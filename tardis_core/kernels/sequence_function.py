"""A whole sequence as one function with a gradient, for the backends that are written in Python."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tardis_core.kernels.inputs import Fixed, Outputs, Trained, needed_backward, wants_gradient


class Passes(NamedTuple):
    """The two passes of a backend, and the tape that the first leaves for the second."""

    backend: str
    forward: Callable[[Trained, Fixed], tuple[Outputs, Any]]
    backward: Callable[[Trained, Fixed, Any, Outputs], Trained]
    tape: Any  # a named tuple of tensors


def run(passes: Passes, trained: Trained, fixed: Fixed) -> Outputs:
    """Run a sequence; the outputs are connected to the gradients of `trained`."""
    if wants_gradient(trained):
        return Outputs._make(_Sequence.apply(passes, fixed, *trained))
    with torch.no_grad():
        return passes.forward(trained, fixed)[0]


def refuse_second_derivative(backend: str) -> None:
    """Raise if backward is itself to be differentiated, which no hand-written pass supports."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            f"the {backend} kernel has no second derivative (create_graph=True); "
            "set model.backend=reference for that"
        )


class _Sequence(torch.autograd.Function):
    """Forward and backward of a whole sequence; backward changes nothing that forward has left."""

    @staticmethod
    def forward(ctx: Any, passes: Passes, fixed: Fixed, *tensors: Tensor | None) -> Any:
        trained = Trained._make(tensors)
        outputs, tape = passes.forward(trained, fixed)
        ctx.passes, ctx.fixed = passes, needed_backward(trained, fixed)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*trained, *tape)
        ctx.mark_non_differentiable(*outputs.choices())
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        refuse_second_derivative(ctx.passes.backend)
        saved = ctx.saved_tensors
        trained = Trained._make(saved[: len(Trained._fields)])
        tape = ctx.passes.tape._make(saved[len(trained) :])
        incoming = Outputs._make(gradients)
        return None, None, *ctx.passes.backward(trained, ctx.fixed, tape, incoming)
