"""The gradient of a straight-through read as a weighted sum of the gradients of softmaxes.

Every straight-through estimator that we know of is of this form, and the form is data: a kernel
applies it at each step of its own way back, without calling the estimator again.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Softmaxes(NamedTuple):
    """S distributions p_s and their factors: dL/dpi = sum_s scale_s J(p_s) dL/dw,

    J(p) = diag(p) - p p^T, the Jacobian of a softmax with the values p.
    """

    p_SBK: Tensor  # any axes may stand between S and K
    scale_S: tuple[float, ...]

    def at(self, t: int) -> "Softmaxes":
        """Those of one step of a sequence."""
        return self._replace(p_SBK=self.p_SBK[:, t])

    def vjp(self, grad_w_BK: Tensor) -> Tensor:
        """The gradient of the logits, from that of the read weights."""
        mean_SB1 = (self.p_SBK * grad_w_BK).sum(-1, keepdim=True)
        terms_SBK = self.p_SBK * (grad_w_BK - mean_SB1)
        scaled = (s * term for s, term in zip(self.scale_S, terms_SBK.unbind(), strict=True))
        return sum(scaled, torch.zeros_like(grad_w_BK))

    def scales(self) -> Tensor:
        """The factors as a tensor, made without a copy from the host: a graph can capture it."""
        return torch.stack([self.p_SBK.new_full((), scale) for scale in self.scale_S])


class _ThroughSoftmaxes(torch.autograd.Function):
    """Forward the weights that were chosen, backward the gradient of the softmaxes."""

    @staticmethod
    def forward(ctx: Any, pi_BK: Tensor, hard_BK: Tensor, softmaxes: Softmaxes) -> Tensor:
        ctx.save_for_backward(softmaxes.p_SBK)
        ctx.scale_S = softmaxes.scale_S
        return hard_BK

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_w_BK: Tensor) -> Any:
        (p_SBK,) = ctx.saved_tensors
        return Softmaxes(p_SBK, ctx.scale_S).vjp(grad_w_BK), None, None


def through_softmaxes(pi_BK: Tensor, hard_BK: Tensor, softmaxes: Softmaxes) -> Tensor:
    """`hard_BK`, whose gradient with respect to `pi_BK` is that of the softmaxes."""
    return _ThroughSoftmaxes.apply(pi_BK, hard_BK, softmaxes)
