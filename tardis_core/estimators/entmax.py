"""1.5-entmax: a softmax whose small values are exactly zero.

Peters, Niculae, Martins 2019, "Sparse Sequence-to-Sequence Models" (arXiv 1905.05702):

    p_k = [z_k / 2 - tau]_+ ^ 2,    tau such that the p_k add up to one

The threshold is found exactly by sorting: with the n largest z / 2, of mean m and mean square q, it
is m - sqrt((1 - n (q - m^2)) / n), and n is the greatest for which it lies below the n-th largest.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def _threshold(half_BK: Tensor) -> Tensor:
    """tau_B1 for z / 2."""
    sorted_BK = half_BK.sort(-1, descending=True).values
    count_K = torch.arange(1, half_BK.shape[-1] + 1, device=half_BK.device, dtype=half_BK.dtype)
    mean_BK = sorted_BK.cumsum(-1) / count_K
    spread_BK = sorted_BK.square().cumsum(-1) - count_K * mean_BK.square()
    tau_BK = mean_BK - ((1 - spread_BK) / count_K).clamp_min(0).sqrt()
    support_B1 = (tau_BK <= sorted_BK).sum(-1, keepdim=True)
    return tau_BK.gather(-1, support_B1 - 1)


class _Entmax15(torch.autograd.Function):
    """With s = sqrt(p), the Jacobian is diag(s) - s s^T / sum(s)."""

    @staticmethod
    def forward(ctx: Any, z_BK: Tensor) -> Tensor:
        half_BK = (z_BK - z_BK.amax(-1, keepdim=True)) / 2
        p_BK = (half_BK - _threshold(half_BK)).clamp_min(0).square()
        ctx.save_for_backward(p_BK)
        return p_BK

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BK: Tensor) -> Tensor:
        (p_BK,) = ctx.saved_tensors
        s_BK = p_BK.sqrt()
        mean_B1 = (s_BK * grad_BK).sum(-1, keepdim=True) / s_BK.sum(-1, keepdim=True)
        return s_BK * (grad_BK - mean_B1)


def entmax15(z_BK: Tensor) -> Tensor:
    """1.5-entmax over the last axis."""
    return _Entmax15.apply(z_BK)
