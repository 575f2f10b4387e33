"""The sequence on a GPU as one function with a gradient: four launches per step, each way."""

from typing import Any

import torch
from torch import Tensor

from tardis_core.kernels.inputs import (
    Fixed,
    Outputs,
    Trained,
    check,
    needed_backward,
    wants_gradient,
)
from tardis_core.kernels.triton_backward import backward
from tardis_core.kernels.triton_forward import Tape, forward


def run(trained: Trained, fixed: Fixed) -> Outputs:
    """Run a sequence; the outputs are connected to the gradients of `trained`."""
    check(trained, fixed)
    if wants_gradient(trained):
        return Outputs._make(_Sequence.apply(fixed, *trained))
    with torch.no_grad():
        return forward(trained, fixed)[0]


class _Sequence(torch.autograd.Function):
    """Forward and backward of a whole sequence; backward changes nothing that forward has left."""

    @staticmethod
    def forward(ctx: Any, fixed: Fixed, *tensors: Tensor | None) -> Any:
        trained = Trained._make(tensors)
        outputs, tape = forward(trained, fixed)
        ctx.fixed = needed_backward(trained, fixed)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*trained, *tape)
        ctx.mark_non_differentiable(*outputs.choices())
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "the triton kernel has no second derivative (create_graph=True); "
                "set model.backend=reference for that"
            )
        saved = ctx.saved_tensors
        trained = Trained._make(saved[: len(Trained._fields)])
        tape = Tape._make(saved[len(trained) :])
        return None, *backward(trained, ctx.fixed, tape, Outputs._make(gradients))
