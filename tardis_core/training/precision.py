"""The precision of matrix products while training; weights and state are always float32.

Evaluations are in float32, whatever the training was.

float32   products in float32, also in cuDNN, which PyTorch would let round to TF32
tf32      products whose factors have 10 bits after the point: NVIDIA GPUs since Ampere; elsewhere
          as float32
bfloat16  products whose factors have 7 bits after the point: PyTorch's mixed precision
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch


@contextmanager
def products(precision: str) -> Iterator[None]:
    """Whether products on a GPU round to TF32, forward and backward; restored at the end."""
    places: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn.rnn)
    before = [place.fp32_precision for place in places]
    for place in places:
        place.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    try:
        yield
    finally:
        for place, value in zip(places, before, strict=True):
            place.fp32_precision = value


def mixed(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Mixed precision for a forward pass; its backward pass follows by itself."""
    if precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
