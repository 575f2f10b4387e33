"""SAM: reads of the few most similar cells, writes to those just read or to the oldest one.

Rae et al. 2016, "Scaling Memory-Augmented Neural Networks with Sparse Reads and Writes" (arXiv
1610.09027). One head. From the controller's state h come a key q with its strength beta, a vector a
and two gates alpha and gamma. One step, with ' for the step before:

    U   = 1 at the cell that was not accessed for longest, else 0
    w_w = alpha (gamma w'_r + (1 - gamma) U)               edit what was read, or take a new cell
    M   = (1 - U 1^T) M' + w_w a^T                         the oldest cell is emptied first
    w_r = softmax of beta cos(q, M[i]) over the N most similar cells, zero elsewhere
    r   = M^T w_r

A cell is accessed where w_r + w_w is above 0.005. At most N + 1 cells change at a step.

DEVIATION(sec. 3): all cells are compared with the key. The paper's approximate index of nearest
neighbours and its roll-back of the memory save time and space with thousands of cells; they change
no equation. An empty cell holds zeros, and unused cells are taken in order.
DEVIATION(sec. 3.1): the weights of the N cells add up to 1. The paper keeps N weights of a softmax
over all cells, but also says "average", and its index does not see the other cells. It names no
strength beta; ours is that of the DNC.
DEVIATION(eq 6): as printed it takes the smallest U, which with the U of SAM, the time since the
last access, is the newest cell. The text says the least recently accessed one.

Letters: B batch, H hidden, K cells, C content, N cells that are read.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.errors import require
from tardis_core.models.base import MODELS
from tardis_core.models.baselines.soft_memory import SoftMemory, SoftMemoryConfig, cosine
from tardis_core.models.controller import ControllerState, LstmConfig
from tardis_core.settings import setting

NEGLIGIBLE = 0.005  # delta: weights up to this are no access


@dataclass(frozen=True)
class SamMemory(SoftMemoryConfig):
    """The memory of SAM; the paper reads 4 or 8 cells."""

    cells: int = setting(64, "number of memory cells (K)")
    nearest: int = setting(4, "number of cells that are read, the most similar ones (N)")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.nearest <= self.cells,
            f"memory.nearest must be at most memory.cells, not {self.nearest} with {self.cells}",
        )


class SamState(NamedTuple):
    """The state between two steps."""

    controller: ControllerState
    memory_BKC: Tensor
    age_BK: Tensor  # steps since the last access, int64
    read_BK: Tensor  # w_r
    r_BC: Tensor


def nearest_weights(scores_BK: Tensor, count: int) -> Tensor:
    """A softmax over the `count` highest scores, of equal ones the first; zero elsewhere."""
    sorted_BK, cells_BK = scores_BK.sort(dim=1, descending=True, stable=True)
    highest_BN, cells_BN = sorted_BK[:, :count], cells_BK[:, :count]
    return torch.zeros_like(scores_BK).scatter(1, cells_BN, torch.softmax(highest_BN, dim=1))


def oldest(age_BK: Tensor) -> Tensor:
    """U: one-hot at the greatest age; of several the first.

    Returns:
        bool_BK
    """
    cells_K = torch.arange(age_BK.shape[1], device=age_BK.device)
    # Unique keys: which of several maxima `argmax` finds is not defined.
    place_B = (age_BK * len(cells_K) - cells_K).argmax(dim=1)
    return cells_K == place_B.unsqueeze(1)


@MODELS.register("sam")
class Sam(SoftMemory):
    """SAM with an LSTM controller."""

    Memory = SamMemory

    def __init__(self, inputs: int, model: LstmConfig, memory: SamMemory, estimator: None) -> None:
        super().__init__(inputs, model, memory.content)
        self.memory_config = memory
        self.parts = [memory.content, memory.content, 1, 1, 1]  # q, a, beta, alpha, gamma
        self.W_p = nn.Linear(model.hidden, sum(self.parts))

    def initial_state(self, batch: int, like: Tensor) -> SamState:
        size = self.memory_config
        age_K = torch.ones(size.cells, dtype=torch.int64, device=like.device)
        return SamState(
            ControllerState.empty(batch, self.config.hidden, like),
            like.new_zeros(batch, size.cells, size.content),
            age_K.expand(batch, -1),
            like.new_zeros(batch, size.cells),
            like.new_zeros(batch, size.content),
        )

    def step(
        self, state: SamState, zx_BG: Tensor, dropout_BH: Tensor | None
    ) -> tuple[SamState, tuple[Tensor, Tensor]]:
        """Update the controller, write, read."""
        controller, _ = self.controller(zx_BG, state.r_BC, state.controller, None, dropout_BH)
        z_BP = self.W_p(controller.h_BH).to(state.r_BC.dtype)
        q_BC, a_BC, beta_B1, alpha_B1, gamma_B1 = z_BP.split(self.parts, dim=1)
        taken_BK = oldest(state.age_BK)
        gamma_B1 = torch.sigmoid(gamma_B1)
        write_BK = gamma_B1 * state.read_BK + (1 - gamma_B1) * taken_BK
        write_BK = torch.sigmoid(alpha_B1) * write_BK
        kept_BKC = state.memory_BKC.masked_fill(taken_BK.unsqueeze(2), 0.0)
        memory_BKC = kept_BKC + write_BK.unsqueeze(2) * a_BC.unsqueeze(1)

        similar_BK = cosine(q_BC.unsqueeze(1), memory_BKC).squeeze(1)
        scores_BK = (1 + F.softplus(beta_B1)) * similar_BK
        read_BK = nearest_weights(scores_BK, self.memory_config.nearest)
        r_BC = torch.bmm(read_BK.unsqueeze(1), memory_BKC).squeeze(1).to(state.r_BC.dtype)
        accessed_BK = read_BK + write_BK > NEGLIGIBLE
        age_BK = torch.where(accessed_BK, 0, state.age_BK + 1)
        return SamState(controller, memory_BKC, age_BK, read_BK, r_BC), (controller.h_BH, r_BC)
