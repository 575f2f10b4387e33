"""The choice of the cell to read: an MLP over hidden state, input, cells and usage."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.models.memory import LAST_READ_PENALTY, MemoryState, usage

SHARPEST = math.atanh(3**-0.5)  # the bias at which the top of the bump of `match` is most curved
MATCH_HEIGHT = 2.0  # of a unit, times the square root of their number; usually it is below 1
MATCH_QUIET = 0.1  # what else speaks for a cell, times its usual scale


class CellWeights(NamedTuple):
    """The weights of the cells in use; W_m comes in two parts."""

    address_KP: Tensor  # what W_m makes of the fixed addresses
    content_PC: Tensor  # what awaits the contents
    usage_PK: Tensor  # W_u


class Addressing(nn.Module):
    """Eq. (4): pi[i] = a . tanh(W_h h + W_x x + W_m M[i] + W_u u + b).

    W_m M[i] is split into the part of the fixed address and the part of the content.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        cells: int,
        address: int,
        content: int,
        width: int,
        memory_gain: float,
    ) -> None:
        super().__init__()
        self.W_h = nn.Linear(hidden, width, bias=False)
        self.W_x = nn.Linear(inputs, width)  # its bias is b
        self.W_m = nn.Linear(address + content, width, bias=False)
        self.W_u = nn.Linear(cells, width, bias=False)
        self.a = nn.Parameter(torch.empty(width))
        self.address_width = address
        nn.init.uniform_(self.a, -(width**-0.5), width**-0.5)
        with torch.no_grad():
            self.W_m.weight.mul_(memory_gain)

    @torch.no_grad()
    def match(self, write_CH: Tensor) -> None:
        """Begin with a preference for cells that hold what would be written now.

        Two units of opposite sign make a bump: tanh(z + b) - tanh(z - b) is greatest at z = 0. Here
        z = W_m M[i] - W_m [0 | W h], zero for a cell that was written in this very state.

        DEVIATION(eq 4): the paper does not describe the initial weights. A random start compares
        contents with the state only by the slight curvature of tanh.

        Args:
            write_CH: W, what makes a content of a hidden state.
        """
        units = self.a.numel() // 2 * 2  # an odd one stays as it is
        first, second = slice(0, units, 2), slice(1, units, 2)
        for weight in (self.W_m.weight, self.W_x.weight, self.W_u.weight):
            weight[second] = weight[first]
        for weight in (self.W_x.weight, self.W_u.weight):
            weight[:units] *= MATCH_QUIET
        content_PC = self.W_m.weight[:units, self.address_width :]
        self.W_h.weight[:units] = -content_PC @ write_CH
        for half, sign in ((first, 1), (second, -1)):
            self.W_x.bias[half] = sign * SHARPEST
            self.a[half] = sign * MATCH_HEIGHT / self.a.numel() ** 0.5

    @torch.no_grad()
    def resize(self, cells: int) -> None:
        """Keep W_u for so many cells; it is zero for those that there were no weights for."""
        old_PK = self.W_u.weight
        kept = min(cells, old_PK.shape[1])
        self.W_u = nn.Linear(cells, len(old_PK), bias=False, device="meta").to_empty(
            device=old_PK.device
        )
        self.W_u.weight.zero_()[:, :kept] = old_PK[:, :kept]

    def cell_weights(self, address_KA: Tensor) -> CellWeights:
        """The weights of the first cells, which are the same at every step of a sequence."""
        widths = [self.address_width, self.W_m.in_features - self.address_width]
        address_PA, content_PC = self.W_m.weight.split_with_sizes(widths, dim=1)
        usage_PK, cells = self.W_u.weight, len(address_KA)
        if cells < usage_PK.shape[1]:
            usage_PK = usage_PK[:, :cells]
        return CellWeights(F.linear(address_KA, address_PA), content_PC, usage_PK)

    def forward(
        self, h_BH: Tensor, zx_BP: Tensor, cells: CellWeights, memory: MemoryState
    ) -> Tensor:
        """The read logits, with the cell read last put out of reach.

        Args:
            h_BH: the hidden state of the step before.
            zx_BP: W_x x + b of this step.
            cells: from `cell_weights`.

        Returns:
            pi_BK
        """
        # DEVIATION(eq 4): h_{t-1}; when the cell is chosen there is no h_t yet.
        cells_BKP = F.linear(memory.content_BKC, cells.content_PC) + cells.address_KP
        common_BP = self.W_h(h_BH) + zx_BP + F.linear(usage(memory.reads_BK), cells.usage_PK)
        pi_BK = torch.tanh(cells_BKP + common_BP.unsqueeze(1)) @ self.a
        return pi_BK.to(memory.last_read_BK.dtype) - LAST_READ_PENALTY * memory.last_read_BK
