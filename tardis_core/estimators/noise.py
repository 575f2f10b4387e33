"""Noise on logits: the argmax of logits plus Gumbel noise is a sample of their softmax."""

import torch
from torch import Tensor


def exponential(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """A unit exponential: -log(1 - uniform), many times faster than torch's own on the CPU."""
    uniform = torch.rand(shape, dtype=like.dtype, device=like.device, generator=generator)
    least = torch.finfo(like.dtype).eps / 4  # where the uniform is 0: half of its least step
    return uniform.neg_().log1p_().neg_().clamp_min_(least)


def gumbel(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard Gumbel noise: -log of a unit exponential."""
    return exponential(shape, like, generator).log_().neg_()
