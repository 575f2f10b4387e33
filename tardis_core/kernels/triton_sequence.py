"""The sequence on a GPU as one function with a gradient: four launches per step, each way.

On a GPU the launches of a sequence are captured in a CUDA graph and replayed (`graphs`).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tardis_core.kernels import plain_lstm, sequence_function
from tardis_core.kernels.graphs import GraphCache, Lease
from tardis_core.kernels.inputs import Fixed, Outputs, Trained, check, wants_gradient
from tardis_core.kernels.sequence_function import refuse_second_derivative
from tardis_core.kernels.triton_backward import backward
from tardis_core.kernels.triton_forward import Tape, forward

PASSES = sequence_function.Passes("triton", forward, backward, Tape)
EXACT_LENGTHS = 4  # of sequences that get graphs of their own length; others are padded
BUCKET = 16  # steps by which their lengths differ


def run(trained: Trained, fixed: Fixed) -> Outputs:
    """Run a sequence; the outputs are connected to the gradients of `trained`."""
    check(trained, fixed)
    if plain_lstm.applies(trained, fixed):
        return plain_lstm.run(trained, fixed)
    if trained.x_TBD.is_cuda:
        return _GRAPHED.run(trained, fixed)
    return run_eagerly(trained, fixed)


def run_eagerly(trained: Trained, fixed: Fixed) -> Outputs:
    """Run a sequence launch by launch."""
    return sequence_function.run(PASSES, trained, fixed)


class Graphed:
    """Runs sequences by graphs; sequences of many lengths are padded, so that few graphs do."""

    def __init__(self, cache: GraphCache) -> None:
        self._cache = cache
        self._lengths: set[int] = set()

    def run(self, trained: Trained, fixed: Fixed) -> Outputs:
        """As `run_eagerly`."""
        T = trained.x_TBD.shape[0]
        trained, fixed = padded(trained, fixed, self._length(T))
        if wants_gradient(trained):
            outputs = Outputs._make(_GraphedSequence.apply(self._cache.lease, fixed, *trained))
        else:
            outputs = self._cache.lease(trained, fixed).graph.forward(trained, fixed)
        return _first_steps(outputs, T)

    def _length(self, T: int) -> int:
        if T in self._lengths or len(self._lengths) < EXACT_LENGTHS:
            self._lengths.add(T)
            return T
        return -(-T // BUCKET) * BUCKET


_GRAPHED = Graphed(GraphCache(forward, backward))


def padded(trained: Trained, fixed: Fixed, length: int) -> tuple[Trained, Fixed]:
    """The same sequence with masked steps behind it, which change nothing."""
    T, B, _ = trained.x_TBD.shape
    if length == T:
        return trained, fixed

    def pad(tensor: Any, value: float = 0) -> Any:
        if tensor is None:
            return None
        return F.pad(tensor, (0, 0) * (tensor.dim() - 1) + (0, length - T), value=value)

    mask_TB = fixed.mask_TB
    if mask_TB is None:
        mask_TB = torch.ones(T, B, dtype=torch.bool, device=trained.x_TBD.device)
    return trained._replace(x_TBD=pad(trained.x_TBD)), fixed._replace(
        mask_TB=pad(mask_TB),
        dropout_TBH=pad(fixed.dropout_TBH),
        read_noise_TBK=pad(fixed.read_noise_TBK),
        spare_noise_TBSK=pad(fixed.spare_noise_TBSK, 1),  # estimators take its logarithm
        reset_noise_TB2=pad(fixed.reset_noise_TB2),
    )


def _first_steps(outputs: Outputs, T: int) -> Outputs:
    def cut(name: str, tensor: Tensor | None) -> Tensor | None:
        return tensor if tensor is None or "_TB" not in name else tensor[:T]

    return Outputs._make(map(cut, Outputs._fields, outputs))


class _GraphedSequence(torch.autograd.Function):
    """The same by graphs; what backward needs stays in the leased graph."""

    @staticmethod
    def forward(
        ctx: Any, lease: Callable[[Trained, Fixed], Lease], fixed: Fixed, *tensors: Tensor | None
    ) -> Any:
        trained = Trained._make(tensors)
        ctx.lease = lease(trained, fixed)
        outputs = ctx.lease.graph.forward(trained, fixed)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*outputs.choices())
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        refuse_second_derivative("triton")
        return None, None, *ctx.lease.graph.backward(Outputs._make(gradients))
