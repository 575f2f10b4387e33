"""The external memory: M = [address | content], one cell read and one cell written per step.

Letters: B batch, K cells, A address width, C content width, Q = A + C; a suffix names the axes.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

LAST_READ_PENALTY = 100.0


class MemoryState(NamedTuple):
    """All that the memory remembers of a sequence; the addresses belong to the model."""

    content_BKC: Tensor  # micro-states; zero before the first write
    reads_BK: Tensor  # how often each cell was read so far
    last_read_BK: Tensor  # one-hot; all zero before the first read
    steps_B: Tensor  # steps taken so far, int64: the next cell to fill while below K


def empty(batch: int, cells: int, content: int, like: Tensor) -> MemoryState:
    """The memory before the first step, on the device and in the type of `like`."""
    return MemoryState(
        content_BKC=like.new_zeros(batch, cells, content),
        reads_BK=like.new_zeros(batch, cells),
        last_read_BK=like.new_zeros(batch, cells),
        steps_B=torch.zeros(batch, dtype=torch.int64, device=like.device),
    )


def sparse_addresses(
    cells: int, width: int, density: float, scale: float, generator: torch.Generator
) -> Tensor:
    """Fixed random sparse address vectors, one per cell.

    Every address has the same number of entries that are not zero, and at least one,
    so that no cell is without an address.

    Returns:
        A_KA
    """
    filled = max(1, round(density * width))
    places = torch.rand(cells, width, generator=generator).topk(filled, dim=1).indices
    values = torch.randn(cells, filled, generator=generator) * scale
    return torch.zeros(cells, width).scatter(1, places, values)


def usage(reads_BK: Tensor) -> Tensor:
    """Eq. (6): the reads so far, centred and divided by their standard deviation.

    All zero where every cell was read equally often, so also before the first read.
    """
    return F.layer_norm(reads_BK, reads_BK.shape[-1:])


def read(w_BK: Tensor, address_KA: Tensor, content_BKC: Tensor) -> Tensor:
    """Eq. (1): r = M^T w, both the address and the content part.

    Returns:
        r_BQ
    """
    address_BA = w_BK @ address_KA
    content_BC = torch.bmm(w_BK.unsqueeze(1), content_BKC).squeeze(1)
    return torch.cat([address_BA, content_BC], dim=1)


def write_cell(read_BK: Tensor, steps_B: Tensor) -> Tensor:
    """Algorithm 1: the first K writes fill the cells in order, later ones go to the cell just read.

    Returns:
        the one-hot place of the write, bool_BK
    """
    cells = read_BK.shape[1]
    in_order_BK = torch.arange(cells, device=steps_B.device) == steps_B.unsqueeze(1)
    return torch.where((steps_B < cells).unsqueeze(1), in_order_BK, read_BK > 0.5)


def write(content_BKC: Tensor, place_BK: Tensor, microstate_BC: Tensor) -> Tensor:
    """Eq. (2): M[i] = W_m h at the place of the write; the other cells stay as they are."""
    return torch.where(place_BK.unsqueeze(2), microstate_BC.unsqueeze(1), content_BKC)
