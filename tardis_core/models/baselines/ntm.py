"""NTM: a controller with a memory that is read and written softly (Graves et al. 2014).

One read head and one write head. A step: the controller sees x_t and r_{t-1}; from its new state
both heads find their weights over M_{t-1}; the read comes before the write. Equation numbers are
those of "Neural Turing Machines" (arXiv 1410.5401).

Letters: B batch, T time, D input, H hidden, K cells, C content, S = 2 heads (read, write).
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.models.base import MODELS
from tardis_core.models.baselines.soft_memory import (
    EMPTY,
    EPSILON,
    SoftMemory,
    SoftMemoryConfig,
    cosine,
    write,
)
from tardis_core.models.controller import ControllerState, LstmConfig

HEADS = 2  # the read head, the write head
SHIFTS = 3  # one cell back, none, one cell on


class NtmState(NamedTuple):
    """The state between two steps."""

    controller: ControllerState
    memory_BKC: Tensor
    w_BSK: Tensor  # the weights of both heads
    r_BC: Tensor  # what was read


class Addresses(NamedTuple):
    """The addressing parameters of a head."""

    k_BSC: Tensor  # key
    beta_BS1: Tensor  # key strength
    g_BS1: Tensor  # interpolation gate
    s_BS3: Tensor  # shift weights
    gamma_BS1: Tensor  # sharpening


def address(heads: Addresses, memory_BKC: Tensor, before_BSK: Tensor) -> Tensor:
    """Eqs. (5) to (9): by content, mixed with the weights before, shifted, sharpened.

    Returns:
        w_BSK
    """
    content_BSK = torch.softmax(heads.beta_BS1 * cosine(heads.k_BSC, memory_BKC), dim=2)  # (5, 6)
    gated_BSK = heads.g_BS1 * content_BSK + (1 - heads.g_BS1) * before_BSK  # (7)
    shifted_BSK = shift(gated_BSK, heads.s_BS3)  # (8)
    # (9) w^gamma / sum w^gamma, by logarithms: no overflow
    return torch.softmax(heads.gamma_BS1 * torch.log(shifted_BSK + EPSILON), dim=2)


def shift(w_BSK: Tensor, s_BS3: Tensor) -> Tensor:
    """Eq. (8): circular convolution; s says how much moves one cell back, stays, moves on."""
    back, stay, on = s_BS3.split(1, dim=2)
    return back * w_BSK.roll(-1, 2) + stay * w_BSK + on * w_BSK.roll(1, 2)


@MODELS.register("ntm")
class Ntm(SoftMemory):
    """NTM with an LSTM controller."""

    Memory = SoftMemoryConfig

    def __init__(
        self, inputs: int, model: LstmConfig, memory: SoftMemoryConfig, estimator: None
    ) -> None:
        super().__init__(inputs, model, memory.content)
        self.memory_config = memory
        self.address_parts = [memory.content, 1, 1, SHIFTS, 1]
        self.W_address = nn.Linear(model.hidden, HEADS * sum(self.address_parts))
        self.W_write = nn.Linear(model.hidden, 2 * memory.content)  # erase and add
        # The weights and the read before the first step are learned.
        self.w_SK = nn.Parameter(torch.randn(HEADS, memory.cells))
        self.r_C = nn.Parameter(0.01 * torch.randn(memory.content))

    def initial_state(self, batch: int, like: Tensor) -> NtmState:
        size = self.memory_config
        return NtmState(
            ControllerState.empty(batch, self.config.hidden, like),
            like.new_full((batch, size.cells, size.content), EMPTY),
            torch.softmax(self.w_SK, dim=1).expand(batch, -1, -1),
            torch.tanh(self.r_C).expand(batch, -1),
        )

    def step(
        self, state: NtmState, zx_BG: Tensor, dropout_BH: Tensor | None
    ) -> tuple[NtmState, tuple[Tensor, Tensor]]:
        """Update the controller, find both weights, read, write."""
        controller, _ = self.controller(zx_BG, state.r_BC, state.controller, None, dropout_BH)
        w_BSK = address(self._addresses(controller.h_BH), state.memory_BKC, state.w_BSK)
        read_BK, write_BK = w_BSK.unbind(1)
        r_BC = torch.bmm(read_BK.unsqueeze(1), state.memory_BKC).squeeze(1)  # (2)
        r_BC = r_BC.to(state.r_BC.dtype)  # mixed precision makes it narrower

        erase_BC, add_BC = self.W_write(controller.h_BH).chunk(2, dim=1)
        memory_BKC = write(state.memory_BKC, write_BK, torch.sigmoid(erase_BC), add_BC)  # (3), (4)
        return NtmState(controller, memory_BKC, w_BSK, r_BC), (controller.h_BH, r_BC)

    def _addresses(self, h_BH: Tensor) -> Addresses:
        """The heads' parameters, each in its range (section 3.3)."""
        z_BSE = self.W_address(h_BH).unflatten(1, (HEADS, -1))
        k, beta, g, s, gamma = z_BSE.split(self.address_parts, dim=2)
        return Addresses(
            torch.tanh(k),
            F.softplus(beta),
            torch.sigmoid(g),
            torch.softmax(s, dim=2),
            1 + F.softplus(gamma),
        )
