"""Shared by the NTM and its kin: an LSTM that reads a memory softly, through which gradients flow.

A subclass has the state and the step of its memory; nothing is chosen, so there is no estimator.

Letters: B batch, T time, D input, H hidden, K cells, C content, S heads, Q width of what is read.
"""

from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from tardis_core.errors import require
from tardis_core.models.base import Hidden, SequenceModel, unroll
from tardis_core.models.controller import Controller, LstmConfig, recurrent_dropout
from tardis_core.settings import setting

# What an empty cell holds: with zeros the cosine has no gradient (Collier & Beel 2018).
EMPTY = 1e-6
EPSILON = 1e-8


@dataclass(frozen=True)
class SoftMemoryConfig:
    """The size of a memory; all its settings are whole numbers from 1."""

    cells: int = setting(16, "number of memory cells (K)")
    content: int = setting(32, "width of a cell (C)")

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            require(value >= 1, f"memory.{field.name} must be at least 1, not {value}")


class SoftMemory(SequenceModel):
    """TARDIS's controller in front of another memory, so that models differ in their memory."""

    Config = LstmConfig
    config: LstmConfig

    def __init__(self, inputs: int, model: LstmConfig, read_width: int) -> None:
        super().__init__()
        self.config = model
        self.read_width = read_width
        self.controller = Controller.of(model, inputs, read_width)

    @abstractmethod
    def step(
        self, state: Any, zx_BG: Tensor, dropout_BH: Tensor | None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """(the new state, (h_BH, r_BQ)) of one step of `Controller.project_inputs`."""

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> Tensor | None:
        return recurrent_dropout(self.config, x_TBD, generator)

    def forward(
        self,
        x_TBD: Tensor,
        state: Any = None,
        mask_TB: Tensor | None = None,
        noise: Tensor | None = None,
    ) -> tuple[Hidden, Any]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        over = [self.controller.project_inputs(x_TBD), noise]
        (h_TBH, r_TBQ), state = unroll(self.step, over, state, mask_TB)
        return Hidden(h_TBH, r_TBQ), state


def cosine(k_BSC: Tensor, memory_BKC: Tensor) -> Tensor:
    """K(u, v) = u . v / (|u| |v|), of every key with every cell.

    Returns:
        the similarities_BSK
    """
    norms_BSK = k_BSC.norm(dim=2, keepdim=True) * memory_BKC.norm(dim=2).unsqueeze(1)
    return torch.bmm(k_BSC, memory_BKC.transpose(1, 2)) / (norms_BSK + EPSILON)


def write(memory_BKC: Tensor, w_BK: Tensor, erase_BC: Tensor, add_BC: Tensor) -> Tensor:
    """M(i) (1 - w(i) e) + w(i) a: erase, then add."""
    w_BK1 = w_BK.unsqueeze(2)
    return memory_BKC * (1 - w_BK1 * erase_BC.unsqueeze(1)) + w_BK1 * add_BC.unsqueeze(1)
