"""Which cell to read: the MLP over hidden state, input, cells and usage."""

import torch
from torch import Tensor, nn

from tardis_core.models.memory import LAST_READ_PENALTY, MemoryState, usage


class Addressing(nn.Module):
    """Eq. (att_read): pi[i] = a . tanh(W_h h + W_x x + W_m M[i] + W_u u + b).

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

    def project_addresses(self, address_KA: Tensor) -> Tensor:
        """The address part of W_m M: the same at every step of a sequence."""
        return nn.functional.linear(address_KA, self.W_m.weight[:, : self.address_width])

    def forward(
        self, h_BH: Tensor, zx_BP: Tensor, address_KP: Tensor, memory: MemoryState
    ) -> Tensor:
        """The read logits, with the cell read last put out of reach.

        Args:
            h_BH: the hidden state of the step before.
            zx_BP: W_x x + b of this step.
            address_KP: from `project_addresses`.

        Returns:
            pi_BK
        """
        # DEVIATION(eq att_read): h_{t-1}; when the cell is chosen there is no h_t yet.
        content_BKP = nn.functional.linear(
            memory.content_BKC, self.W_m.weight[:, self.address_width :]
        )
        common_BP = self.W_h(h_BH) + zx_BP + self.W_u(usage(memory.reads_BK))
        pi_BK = torch.tanh(content_BKP + address_KP + common_BP.unsqueeze(1)) @ self.a
        return pi_BK.to(memory.last_read_BK.dtype) - LAST_READ_PENALTY * memory.last_read_BK
