"""Neural stack, queue and deque: values with strengths (Grefenstette et al. 2015).

"Learning to Transduce with Unbounded Memory" (arXiv 1506.02516), section 3. From the controller's
state come d (how much is pushed), u (how much is popped) and a value v. The stack has its top at
the end; with s[i] the strength of value V[i]:

    s[i] = max(0, s[i] - max(0, u - sum_{j>i} s[j]))       pop u from the top, Eq. (2)
    append v with the strength d                           push, Eqs. (1) and (2)
    r = sum_i min(s[i], max(0, 1 - sum_{j>i} s[j])) V[i]   read 1 from the top, Eq. (3)

A queue pops and reads from the other end (j < i). A deque does all of it at both ends: it pops from
the top, then from the bottom, pushes at both ends and reads at both.

DEVIATION(unbounded): there are K values. When one more is pushed, the weakest is dropped, of equal
ones the one nearest to the bottom. This changes nothing while at most K values have a strength.
DEVIATION(sec. 3.4): the LSTM starts at zero, as that of our other memory models; the paper learns
its initial state. Predictions see r_t beside h_t; the paper's see the LSTM alone.
DEVIATION(eqs 7, 8): a deque pops its newest value, too. As printed, their bounds leave it out, and
then Eq. (9) needs a strength that they do not define.

Letters: B batch, H hidden, K cells, C content, E ends that are written or read, Q = E C.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from tardis_core.models.base import MODELS
from tardis_core.models.baselines.soft_memory import SoftMemory, SoftMemoryConfig
from tardis_core.models.controller import ControllerState, LstmConfig
from tardis_core.settings import setting

End = Literal["top", "bottom"]


@dataclass(frozen=True)
class ValuesMemory(SoftMemoryConfig):
    """The values that are kept."""

    cells: int = setting(32, "number of values that are kept (K)")


class StackState(NamedTuple):
    """The state between two steps."""

    controller: ControllerState
    value_BKC: Tensor  # from the bottom to the top
    strength_BK: Tensor
    r_BQ: Tensor


def before(strength_BK: Tensor, end: End) -> Tensor:
    """The strength between each value and one end."""
    if end == "bottom":
        return strength_BK.cumsum(1) - strength_BK
    return strength_BK.flip(1).cumsum(1).flip(1) - strength_BK


def pop(strength_BK: Tensor, amount_B1: Tensor, end: End) -> Tensor:
    """Eq. (2), first case: take an amount of strength away, beginning at one end."""
    left_BK = torch.relu(amount_B1 - before(strength_BK, end))
    return torch.relu(strength_BK - left_BK)


def read(value_BKC: Tensor, strength_BK: Tensor, end: End) -> Tensor:
    """Eq. (3): the values of a strength of one, beginning at one end."""
    weight_BK = torch.minimum(strength_BK, torch.relu(1 - before(strength_BK, end)))
    return torch.bmm(weight_BK.unsqueeze(1), value_BKC).squeeze(1)


def drop_weakest(value_BKC: Tensor, strength_BK: Tensor) -> tuple[Tensor, Tensor]:
    """Without the weakest value; the others stay in order."""
    cells = strength_BK.shape[1] - 1
    order_BK = strength_BK.detach().argsort(dim=1, stable=True)
    kept_BK = order_BK[:, 1:].sort(dim=1).values
    index_BKC = kept_BK.unsqueeze(2).expand(-1, cells, value_BKC.shape[2])
    return value_BKC.gather(1, index_BKC), strength_BK.gather(1, kept_BK)


class NeuralStackModel(SoftMemory):
    """A controller whose values enter and leave at given ends."""

    Memory = ValuesMemory
    pushed_at: ClassVar[tuple[End, ...]]
    taken_at: ClassVar[tuple[End, ...]]  # where values are popped and read

    def __init__(
        self, inputs: int, model: LstmConfig, memory: ValuesMemory, estimator: None
    ) -> None:
        super().__init__(inputs, model, len(self.taken_at) * memory.content)
        self.memory_config = memory
        pushes, pops = len(self.pushed_at), len(self.taken_at)
        self.parts = [pushes, pops, pushes * memory.content]  # d, u, v
        self.W_o = nn.Linear(model.hidden, sum(self.parts))
        with torch.no_grad():
            # App. B: at first little is popped, else nothing stays to learn from.
            self.W_o.bias[pushes : pushes + pops] = -1.0

    def initial_state(self, batch: int, like: Tensor) -> StackState:
        size = self.memory_config
        return StackState(
            ControllerState.empty(batch, self.config.hidden, like),
            like.new_zeros(batch, size.cells, size.content),
            like.new_zeros(batch, size.cells),
            like.new_zeros(batch, self.read_width),
        )

    def step(
        self, state: StackState, zx_BG: Tensor, dropout_BH: Tensor | None
    ) -> tuple[StackState, tuple[Tensor, Tensor]]:
        """Update the controller, pop, push, read."""
        controller, _ = self.controller(zx_BG, state.r_BQ, state.controller, None, dropout_BH)
        z_BP = self.W_o(controller.h_BH).to(state.r_BQ.dtype)
        d_BE, u_BE, v_BQ = z_BP.split(self.parts, dim=1)
        strength_BK = state.strength_BK
        for amount_B1, end in zip(torch.sigmoid(u_BE).split(1, 1), self.taken_at, strict=True):
            strength_BK = pop(strength_BK, amount_B1, end)
        value_BKC, strength_BK = self._push(
            state.value_BKC, strength_BK, torch.tanh(v_BQ), torch.sigmoid(d_BE)
        )
        reads = [read(value_BKC, strength_BK, end) for end in self.taken_at]
        r_BQ = torch.cat(reads, dim=1).to(state.r_BQ.dtype)
        return StackState(controller, value_BKC, strength_BK, r_BQ), (controller.h_BH, r_BQ)

    def _push(
        self, value_BKC: Tensor, strength_BK: Tensor, v_BQ: Tensor, d_BE: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The values and strengths with a new one at each end that is written."""
        width = self.memory_config.content
        new = zip(v_BQ.split(width, dim=1), d_BE.split(1, dim=1), self.pushed_at, strict=True)
        for v_BC, d_B1, end in new:
            values, strengths = [value_BKC, v_BC.unsqueeze(1)], [strength_BK, d_B1]
            if end == "bottom":
                values.reverse()
                strengths.reverse()
            value_BKC, strength_BK = drop_weakest(torch.cat(values, 1), torch.cat(strengths, 1))
        return value_BKC, strength_BK


@MODELS.register("neural-stack")
class NeuralStack(NeuralStackModel):
    """Last in, first out."""

    pushed_at = ("top",)
    taken_at = ("top",)


@MODELS.register("neural-queue")
class NeuralQueue(NeuralStackModel):
    """First in, first out."""

    pushed_at = ("top",)
    taken_at = ("bottom",)


@MODELS.register("neural-deque")
class NeuralDeque(NeuralStackModel):
    """Both ends."""

    pushed_at = ("top", "bottom")
    taken_at = ("top", "bottom")
