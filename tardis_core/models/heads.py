"""From states to predictions: the output head, and the head that sees the memory alone."""

import torch
from torch import Tensor, nn

from tardis_core.models.base import drop


class OutputHead(nn.Module):
    """Eq. (11): W_o g(h, r), where g is one hidden layer; the softmax is the loss's."""

    def __init__(
        self, hidden: int, read_width: int, width: int, outputs: int, dropout: float
    ) -> None:
        super().__init__()
        self.g_h = nn.Linear(hidden, width)
        self.g_r = nn.Linear(read_width, width, bias=False) if read_width else None
        self.W_o = nn.Linear(width, outputs)
        self.dropout = dropout

    def forward(
        self, h_TBH: Tensor, r_TBQ: Tensor | None, generator: torch.Generator | None = None
    ) -> Tensor:
        """Logits_TBO; a generator switches dropout on."""
        g_TBG = self.g_h(h_TBH)
        if self.g_r is not None:
            g_TBG = g_TBG + self.g_r(r_TBQ)
        g_TBG = torch.relu(g_TBG)
        if generator is not None:
            g_TBG = drop(g_TBG, self.dropout, generator)
        return self.W_o(g_TBG)


class MemoryHead(nn.Module):
    """Eq. (17): W_r r + W_x x, the prediction from what was read alone.

    DEVIATION(eq 17): the paper does not say what its cost trains. Detached, the default, it is the
    parameters of this head alone; attached also what the memory holds.
    """

    def __init__(self, read_width: int, inputs: int, outputs: int, attached: bool = False) -> None:
        super().__init__()
        self.attached = attached
        self.W_r = nn.Linear(read_width, outputs)
        self.W_x = nn.Linear(inputs, outputs, bias=False)

    def forward(self, r_TBQ: Tensor, x_TBD: Tensor) -> Tensor:
        """Logits_TBO"""
        if not self.attached:
            r_TBQ, x_TBD = r_TBQ.detach(), x_TBD.detach()
        return self.W_r(r_TBQ) + self.W_x(x_TBD)
