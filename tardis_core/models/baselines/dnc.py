"""DNC: a memory that knows which cells are free and in which order they were written.

Graves et al. 2016, "Hybrid computing using a neural network with dynamic external memory" (Nature
538), section Methods. One write head, R read heads. From the controller's state h come a key k and
its strength beta for each head, the gates f (R free gates), g_a, g_w, the vectors e and v, and R
times three modes pi. One step, with the weights of the step before marked ':

    psi = prod_r (1 - f_r w'_r)                            what stays after the last reads
    u   = (u' + w'_w - u' w'_w) psi                        usage
    a[phi_j] = (1 - u[phi_j]) prod_{i<j} u[phi_i]          allocation; phi sorts cells by usage
    w_w = g_w (g_a a + (1 - g_a) C(M', k_w, beta_w))       write weights; C is a softmax of cosines
    M   = M' (1 - w_w e^T) + w_w v^T
    L[i,j] = (1 - w_w[i] - w_w[j]) L'[i,j] + w_w[i] p'[j]  j was written just before i; L[i,i] = 0
    p   = (1 - sum w_w) p' + w_w                           what was written last
    w_r = pi_r1 L^T w'_r + pi_r2 C(M, k_r, beta_r) + pi_r3 L w'_r
    r_r = M^T w_r

DEVIATION(allocation): u is kept above 1e-6 there, as in the authors' code; at zero the gradient of
the product is not defined. An empty cell holds 1e-6, as in our NTM.

Letters: B batch, H hidden, K cells, C content, R read heads, Q = R C.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.models.base import MODELS
from tardis_core.models.baselines.soft_memory import (
    EMPTY,
    SoftMemory,
    SoftMemoryConfig,
    cosine,
    write,
)
from tardis_core.models.controller import ControllerState, LstmConfig
from tardis_core.settings import setting

MODES = 3  # backward, by content, forward
LEAST_USAGE = 1e-6


@dataclass(frozen=True)
class DncMemory(SoftMemoryConfig):
    """The memory of the DNC; the authors' code has four read heads, too."""

    heads: int = setting(4, "number of read heads (R)")


class DncState(NamedTuple):
    """The state between two steps."""

    controller: ControllerState
    memory_BKC: Tensor
    usage_BK: Tensor  # u
    link_BKK: Tensor  # L
    last_written_BK: Tensor  # p
    write_BK: Tensor  # w_w
    read_BRK: Tensor  # w_r
    r_BQ: Tensor


class Interface(NamedTuple):
    """What the controller says to the memory, each part in its range."""

    read_key_BRC: Tensor
    read_strength_BR1: Tensor
    write_key_B1C: Tensor
    write_strength_B11: Tensor
    erase_BC: Tensor
    add_BC: Tensor
    free_BR1: Tensor
    allocation_gate_B1: Tensor
    write_gate_B1: Tensor
    modes_BR3: Tensor


def by_content(memory_BKC: Tensor, key_BSC: Tensor, strength_BS1: Tensor) -> Tensor:
    """C(M, k, beta): a softmax of cosines, BSK."""
    return torch.softmax(strength_BS1 * cosine(key_BSC, memory_BKC), dim=2)


def allocation(usage_BK: Tensor) -> Tensor:
    """a: the first free cell, then the next as far as the first is in use."""
    usage_BK = LEAST_USAGE + (1 - LEAST_USAGE) * usage_BK
    sorted_BK, phi_BK = usage_BK.sort(dim=1, stable=True)
    before_BK = F.pad(sorted_BK[:, :-1], (1, 0), value=1.0).cumprod(dim=1)
    return torch.zeros_like(usage_BK).scatter(1, phi_BK, (1 - sorted_BK) * before_BK)


def link(link_BKK: Tensor, last_written_BK: Tensor, write_BK: Tensor) -> Tensor:
    """L after a write: entry (i, j) says how far i was written right after j."""
    to_BK1, from_B1K = write_BK.unsqueeze(2), write_BK.unsqueeze(1)
    new_BKK = (1 - to_BK1 - from_B1K) * link_BKK + to_BK1 * last_written_BK.unsqueeze(1)
    return new_BKK * (1 - torch.eye(write_BK.shape[1], dtype=new_BKK.dtype, device=new_BKK.device))


@MODELS.register("dnc")
class Dnc(SoftMemory):
    """DNC with an LSTM controller."""

    Memory = DncMemory

    def __init__(self, inputs: int, model: LstmConfig, memory: DncMemory, estimator: None) -> None:
        super().__init__(inputs, model, memory.heads * memory.content)
        self.memory_config = memory
        R, C = memory.heads, memory.content
        self.parts = [R * C, R, C, 1, C, C, R, 1, 1, R * MODES]  # of `Interface`
        self.W_interface = nn.Linear(model.hidden, sum(self.parts))

    def initial_state(self, batch: int, like: Tensor) -> DncState:
        size = self.memory_config
        K, R = size.cells, size.heads
        zeros_BK = like.new_zeros(batch, K)
        return DncState(
            ControllerState.empty(batch, self.config.hidden, like),
            like.new_full((batch, K, size.content), EMPTY),
            zeros_BK,
            like.new_zeros(batch, K, K),
            zeros_BK,
            zeros_BK,
            like.new_zeros(batch, R, K),
            like.new_zeros(batch, self.read_width),
        )

    def step(
        self, state: DncState, zx_BG: Tensor, dropout_BH: Tensor | None
    ) -> tuple[DncState, tuple[Tensor, Tensor]]:
        """Update the controller, write, read."""
        controller, _ = self.controller(zx_BG, state.r_BQ, state.controller, None, dropout_BH)
        said = self._interface(controller.h_BH.to(state.r_BQ.dtype))
        usage_BK = self._usage(state, said.free_BR1)
        write_BK = self._write_weights(state.memory_BKC, usage_BK, said)
        memory_BKC = write(state.memory_BKC, write_BK, said.erase_BC, said.add_BC)
        link_BKK = link(state.link_BKK, state.last_written_BK, write_BK)
        last_written_BK = (1 - write_BK.sum(1, keepdim=True)) * state.last_written_BK + write_BK
        read_BRK = self._read_weights(state.read_BRK, memory_BKC, link_BKK, said)
        r_BQ = torch.bmm(read_BRK, memory_BKC).flatten(1).to(state.r_BQ.dtype)
        memory = (memory_BKC, usage_BK, link_BKK, last_written_BK, write_BK, read_BRK)
        return DncState(controller, *memory, r_BQ), (controller.h_BH, r_BQ)

    def _interface(self, h_BH: Tensor) -> Interface:
        R = self.memory_config.heads
        z = self.W_interface(h_BH).to(h_BH.dtype).split(self.parts, dim=1)
        return Interface(
            z[0].unflatten(1, (R, -1)),
            1 + F.softplus(z[1]).unsqueeze(2),
            z[2].unsqueeze(1),
            1 + F.softplus(z[3]).unsqueeze(2),
            torch.sigmoid(z[4]),
            z[5],
            torch.sigmoid(z[6]).unsqueeze(2),
            torch.sigmoid(z[7]),
            torch.sigmoid(z[8]),
            torch.softmax(z[9].unflatten(1, (R, MODES)), dim=2),
        )

    def _usage(self, state: DncState, free_BR1: Tensor) -> Tensor:
        """u: cells become used by writes, and free by reads whose free gate is open."""
        kept_BK = (1 - free_BR1 * state.read_BRK).prod(dim=1)  # psi
        used_BK = state.usage_BK + state.write_BK - state.usage_BK * state.write_BK
        return used_BK * kept_BK

    def _write_weights(self, memory_BKC: Tensor, usage_BK: Tensor, said: Interface) -> Tensor:
        """w_w: a free cell, or one with similar content."""
        content_BK = by_content(memory_BKC, said.write_key_B1C, said.write_strength_B11).squeeze(1)
        gate_B1 = said.allocation_gate_B1
        mixed_BK = gate_B1 * allocation(usage_BK) + (1 - gate_B1) * content_BK
        return said.write_gate_B1 * mixed_BK

    def _read_weights(
        self, before_BRK: Tensor, memory_BKC: Tensor, link_BKK: Tensor, said: Interface
    ) -> Tensor:
        """w_r: the cell written before the last read one, a similar cell, or the one after."""
        backward_BRK = torch.bmm(before_BRK, link_BKK)  # L^T w' as rows
        forward_BRK = torch.bmm(before_BRK, link_BKK.transpose(1, 2))
        content_BRK = by_content(memory_BKC, said.read_key_BRC, said.read_strength_BR1)
        back, similar, on = said.modes_BR3.split(1, dim=2)
        return back * backward_BRK + similar * content_BRK + on * forward_BRK
