"""From states to predictions: the output head, and the head that sees the memory alone."""

import torch
from torch import Tensor, nn

from tardis_core.models.base import dropout_mask


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

    def draw_dropout(self, steps: int, like: Tensor, generator: torch.Generator) -> Tensor | None:
        """The mask_NG on the hidden layer for all steps, or None where nothing is dropped."""
        return dropout_mask((steps, self.W_o.in_features), self.dropout, like, generator)

    def forward(
        self, h_TBH: Tensor, r_TBQ: Tensor | None, dropout_NG: Tensor | None = None
    ) -> Tensor:
        """Logits_TBO; the mask is that of all steps in a row."""
        g_TBG = self.g_h(h_TBH)
        if self.g_r is not None:
            g_TBG = g_TBG + self.g_r(r_TBQ)
        g_TBG = torch.relu(g_TBG)
        if dropout_NG is not None:
            g_TBG = g_TBG * dropout_NG.view_as(g_TBG).to(g_TBG.dtype)
        return self.W_o(g_TBG)


class MemoryHead(nn.Module):
    """Eq. (17): W_r r + W_x x, the prediction from what was read alone.

    Its cost trains the parameters of this head alone, as the paper says ("we do not backpropagate
    through r").

    DEVIATION(eq 17): r is the whole of what was read, the fixed address of the cell included, and
    so tells which cell it was; there is a bias. Attached, which is not the default, the cost also
    trains what the memory holds.
    """

    def __init__(self, read_width: int, inputs: int, outputs: int, attached: bool) -> None:
        super().__init__()
        self.attached = attached
        self.W_r = nn.Linear(read_width, outputs)
        self.W_x = nn.Linear(inputs, outputs, bias=False)

    def forward(self, r_TBQ: Tensor, x_TBD: Tensor) -> Tensor:
        """Logits_TBO"""
        if not self.attached:
            r_TBQ, x_TBD = r_TBQ.detach(), x_TBD.detach()
        return self.W_r(r_TBQ) + self.W_x(x_TBD)
