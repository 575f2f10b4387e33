"""Stack-RNN: an RNN with stacks that it pushes and pops softly (Joulin & Mikolov 2015).

"Inferring Algorithmic Patterns with Stack-Augmented Recurrent Nets" (arXiv 1503.01007), section
4.2. Each of S stacks holds one number per cell, the top first, and -1 where it is empty:

    h_t = sigm(U x_t + R h_{t-1} + P s_{t-1}[0..k-1] + b)          k: the cells that are seen
    a_t = softmax(A h_t)                                           push, pop, no operation
    s_t[0] = a[push] sigm(D h_t) + a[pop] s_{t-1}[1]   + a[no-op] s_{t-1}[0]
    s_t[i] = a[push] s_{t-1}[i-1] + a[pop] s_{t-1}[i+1] + a[no-op] s_{t-1}[i]

DEVIATION(depth): K cells; what is pushed below the last one is lost, and from below it comes -1.
The paper also tries discrete actions at evaluation; ours stay soft.
DEVIATION(eqs 1 to 6): the paper has no biases. On algorithmic tasks it sets R to zero, and NO-OP is
chosen per task; here both are always there.

Letters: B batch, T time, D input, H hidden, S stacks, K cells of a stack.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.errors import require
from tardis_core.models.base import MODELS, Hidden, ModelConfig, SequenceModel, unroll
from tardis_core.models.baselines.soft_memory import SoftMemoryConfig
from tardis_core.settings import setting

ACTIONS = 3  # push, pop, no operation
EMPTY = -1.0


@dataclass(frozen=True)
class StackMemory(SoftMemoryConfig):
    """The stacks; `content` is their number, since each gives one number to a cell."""

    content: int = setting(32, "number of stacks (S)")
    seen: int = setting(2, "number of cells at the top of each stack that the RNN sees (k)")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.seen <= self.cells,
            f"memory.seen must be at most memory.cells, not {self.seen} with {self.cells}",
        )


class StackRnnState(NamedTuple):
    """The hidden units and the stacks."""

    h_BH: Tensor
    stack_BKS: Tensor  # the top is cell 0


@MODELS.register("stack-rnn")
class StackRnn(SequenceModel):
    """No gates: long memory is in the stacks."""

    Config = ModelConfig
    Memory = StackMemory
    config: ModelConfig

    def __init__(
        self, inputs: int, model: ModelConfig, memory: StackMemory, estimator: None
    ) -> None:
        super().__init__()
        self.config, self.memory_config = model, memory
        H, S = model.hidden, memory.content
        self.U = nn.Linear(inputs, H)
        self.R = nn.Linear(H, H, bias=False)
        self.P = nn.Linear(memory.seen * S, H, bias=False)
        self.A = nn.Linear(H, ACTIONS * S)
        self.D = nn.Linear(H, S)
        nn.init.orthogonal_(self.R.weight)

    def initial_state(self, batch: int, like: Tensor) -> StackRnnState:
        size = self.memory_config
        return StackRnnState(
            like.new_zeros(batch, self.config.hidden),
            like.new_full((batch, size.cells, size.content), EMPTY),
        )

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> None:
        """There is none."""

    def forward(
        self,
        x_TBD: Tensor,
        state: StackRnnState | None = None,
        mask_TB: Tensor | None = None,
        noise: None = None,
    ) -> tuple[Hidden, StackRnnState]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        (h_TBH,), state = unroll(self.step, [self.U(x_TBD)], state, mask_TB)
        return Hidden(h_TBH), state

    def step(self, state: StackRnnState, zx_BH: Tensor) -> tuple[StackRnnState, tuple[Tensor]]:
        """Update the hidden units, then every stack."""
        stack_BKS, dtype = state.stack_BKS, state.h_BH.dtype
        top_BX = stack_BKS[:, : self.memory_config.seen].flatten(1)
        h_BH = torch.sigmoid(zx_BH + self.R(state.h_BH) + self.P(top_BX)).to(dtype)
        actions_B3S = torch.softmax(self.A(h_BH).unflatten(1, (ACTIONS, -1)).to(dtype), dim=1)
        pushed_B1S = torch.sigmoid(self.D(h_BH)).unsqueeze(1).to(dtype)
        push_B1S, pop_B1S, stay_B1S = actions_B3S.split(1, dim=1)
        down_BKS = torch.cat([pushed_B1S, stack_BKS[:, :-1]], dim=1)
        up_BKS = F.pad(stack_BKS[:, 1:], (0, 0, 0, 1), value=EMPTY)
        new_BKS = push_B1S * down_BKS + pop_B1S * up_BKS + stay_B1S * stack_BKS
        return StackRnnState(h_BH, new_BKS), (h_BH,)
