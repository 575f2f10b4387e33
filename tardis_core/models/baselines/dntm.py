"""D-NTM: a memory whose cells have learned addresses, read and written by separate heads.

Gulcehre, Chandar, Cho, Bengio 2016, "Dynamic Neural Turing Machine with Continuous and Discrete
Addressing Schemes" (arXiv 1607.00036). Each cell is [address | content]; the addresses are
parameters, the contents start at zero. For each of its two heads, with h of the controller:

    z[i] = (softplus(u_beta . h) + 1) cos(W_k h, M[i])              key and sharpening
    pi   = z - sigm(u_gamma . h) v,     v = 0.1 v + 0.9 z           least recently used addressing
    w    = softmax(pi), or one cell of it for the discrete form

A step reads r = M^T w, updates the controller with it, and writes

    C[i] = (1 - w[i] e) C[i] + w[i] c,  e = sigm(W_e h),  c = relu(W_m h + alpha W_x x)

where alpha = sigm(u_h . h + u_x . x) is a scalar. The last cell is a NO-OP: what is read from it is
zero, what is written to it is lost.

The discrete form learns by a curriculum (Eq. (12) of the paper): a batch of training is addressed
softly, as in the continuous form, with probability p = 1 / sqrt(1 + n), and else discretely; n
counts how often p has been lowered.

DEVIATION: the controller is TARDIS's LSTM (the paper's is a GRU or feedforward), so that models
differ in their memory. The discrete form is trained by our estimators. The curriculum is spread
over the training: the paper does not say after how many batches p is lowered.

Letters: B batch, T time, D input, H hidden, K cells, A address, C content, Q = A + C.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.errors import require
from tardis_core.estimators.base import Estimator
from tardis_core.models import memory as mem
from tardis_core.models.base import MODELS, Hidden, Reads, SequenceModel, unroll
from tardis_core.models.baselines.soft_memory import write
from tardis_core.models.controller import Controller, ControllerState, LstmConfig, recurrent_dropout
from tardis_core.settings import setting

LRU_MEMORY = 0.1  # how much of v stays from step to step
EPSILON = 1e-8


@dataclass(frozen=True)
class DntmMemory:
    """The memory of the D-NTM."""

    cells: int = setting(16, "number of memory cells, the NO-OP cell included (K)")
    address: int = setting(4, "width of a cell's learned address (A)")
    content: int = setting(32, "width of a cell's content (C)")
    no_op: bool = setting(True, "whether the last cell is a NO-OP cell, which reads as zero")

    def __post_init__(self) -> None:
        for name in ("address", "content"):
            value = getattr(self, name)
            require(value >= 1, f"memory.{name} must be at least 1, not {value}")
        least = 2 if self.no_op else 1
        require(
            self.cells >= least,
            f"memory.cells must be at least {least} with memory.no_op={self.no_op}, "
            f"not {self.cells}",
        )


@dataclass(frozen=True)
class DntmDiscreteMemory(DntmMemory):
    """The memory of the discrete form, with the curriculum of its training."""

    curriculum: int = setting(
        24,
        "how often the probability of a soft batch, 1 / sqrt(1 + n), is lowered in a training; "
        "0 trains discretely from the start",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        times = self.curriculum
        require(times >= 0, f"memory.curriculum must not be negative, not {times}")


class DntmState(NamedTuple):
    """The state between two steps."""

    controller: ControllerState
    content_BKC: Tensor
    read_v_BK: Tensor  # moving averages of the logits, by head
    write_v_BK: Tensor


class DntmNoise(NamedTuple):
    """The noise of a whole sequence; the parts that are off are None."""

    read_TBK: Tensor | None = None  # Gumbel, on the logits of the discrete form
    write_TBK: Tensor | None = None
    dropout_TBH: Tensor | None = None
    read_spare_TBSK: Tensor | None = None  # of the estimator, for the way back
    write_spare_TBSK: Tensor | None = None
    soft: bool = False  # whether the discrete form addresses as the continuous one does


class Head(nn.Module):
    """One head: from a state to the logits of the cells."""

    def __init__(self, hidden: int, address: int, content: int) -> None:
        super().__init__()
        self.parts = [address, content, 1, 1]
        self.W = nn.Linear(hidden, sum(self.parts))  # W_k, u_beta, u_gamma and their biases

    def forward(
        self, h_BH: Tensor, address_KA: Tensor, content_BKC: Tensor, v_BK: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(pi_BK, the new v_BK)"""
        key_BA, key_BC, beta_B1, gamma_B1 = self.W(h_BH).split(self.parts, dim=1)
        dot_BK = key_BA @ address_KA.T + torch.bmm(content_BKC, key_BC.unsqueeze(2)).squeeze(2)
        key_B1 = (key_BA.square().sum(1) + key_BC.square().sum(1)).sqrt().unsqueeze(1)
        cell_BK = (address_KA.square().sum(1) + content_BKC.square().sum(2)).sqrt()
        z_BK = (F.softplus(beta_B1) + 1) * dot_BK / (key_B1 * cell_BK + EPSILON)
        pi_BK = z_BK - torch.sigmoid(gamma_B1) * v_BK
        return pi_BK, LRU_MEMORY * v_BK + (1 - LRU_MEMORY) * z_BK


@MODELS.register("dntm")
class Dntm(SequenceModel):
    """The continuous form: both heads weigh all cells."""

    Config = LstmConfig
    Memory = DntmMemory
    config: LstmConfig
    used_K: Tensor

    def __init__(
        self, inputs: int, model: LstmConfig, memory: DntmMemory, estimator: Estimator | None
    ) -> None:
        super().__init__()
        self.config, self.memory_config, self.estimator = model, memory, estimator
        self.read_width = memory.address + memory.content
        self.controller = Controller.of(model, inputs, self.read_width)
        self.read_head = Head(model.hidden, memory.address, memory.content)
        self.write_head = Head(model.hidden, memory.address, memory.content)
        self.W_h = nn.Linear(model.hidden, 2 * memory.content + 1)  # W_e, W_m, u_h
        self.W_x = nn.Linear(inputs, memory.content + 1, bias=False)  # W_x, u_x
        self.address_KA = nn.Parameter(torch.randn(memory.cells, memory.address))
        used_K = torch.ones(memory.cells)
        if memory.no_op:
            used_K[-1] = 0
        self.register_buffer("used_K", used_K, persistent=False)

    def initial_state(self, batch: int, like: Tensor) -> DntmState:
        size = self.memory_config
        controller = ControllerState.empty(batch, self.config.hidden, like)
        content_BKC = like.new_zeros(batch, size.cells, size.content)
        v_BK = like.new_zeros(batch, size.cells)
        return DntmState(controller, content_BKC, v_BK, v_BK)

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> DntmNoise:
        read_TBK = write_TBK = read_spare_TBSK = write_spare_TBSK = None
        if self.estimator is not None:
            cells = (2, *x_TBD.shape[:2], self.memory_config.cells)
            both, both_spare = self.estimator.draw_noise(cells, x_TBD, generator)
            read_TBK, write_TBK = both.unbind()
            if both_spare is not None:
                read_spare_TBSK, write_spare_TBSK = both_spare.unbind()
        dropout_TBH = recurrent_dropout(self.config, x_TBD, generator)
        return DntmNoise(read_TBK, write_TBK, dropout_TBH, read_spare_TBSK, write_spare_TBSK)

    def forward(
        self,
        x_TBD: Tensor,
        state: DntmState | None = None,
        mask_TB: Tensor | None = None,
        noise: DntmNoise | None = None,
    ) -> tuple[Hidden, DntmState]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        over = [self.controller.project_inputs(x_TBD), self.W_x(x_TBD)]
        *sequences, soft = noise or DntmNoise()
        step = partial(self.step, soft=soft)
        (h, r, *choices), state = unroll(step, over + sequences, state, mask_TB)
        return Hidden(h, r, self._reads(choices, soft)), state

    def step(
        self,
        state: DntmState,
        zx_BG: Tensor,
        content_BY: Tensor,
        read_noise_BK: Tensor | None,
        write_noise_BK: Tensor | None,
        dropout_BH: Tensor | None,
        read_spare_BSK: Tensor | None = None,
        write_spare_BSK: Tensor | None = None,
        *,
        soft: bool = False,
    ) -> tuple[DntmState, tuple[Tensor, ...]]:
        """Choose and read, update the controller, choose and write."""
        weights = partial(Dntm.weights, self) if soft else self.weights
        before = state.controller.h_BH
        read_pi_BK, read_v_BK = self._logits(self.read_head, before, state, state.read_v_BK, soft)
        read_BK = weights(read_pi_BK, read_noise_BK, before, read_spare_BSK)
        r_BQ = mem.read(read_BK * self.used_K, self.address_KA, state.content_BKC)

        controller, _ = self.controller(zx_BG, r_BQ, state.controller, None, dropout_BH)

        h_BH = controller.h_BH
        write_pi_BK, write_v_BK = self._logits(self.write_head, h_BH, state, state.write_v_BK, soft)
        write_BK = weights(write_pi_BK, write_noise_BK, h_BH, write_spare_BSK)
        erase_BC, add_BC = self._content(h_BH, content_BY)
        content_BKC = write(state.content_BKC, write_BK * self.used_K, erase_BC, add_BC)
        outputs = (h_BH, r_BQ, read_pi_BK, read_BK, write_pi_BK, write_BK)
        return DntmState(controller, content_BKC, read_v_BK, write_v_BK), outputs

    def _logits(
        self, head: Head, h_BH: Tensor, state: DntmState, v_BK: Tensor, soft: bool
    ) -> tuple[Tensor, Tensor]:
        """A head's logits, from what gradients of the choice may flow back to."""

        def seen(tensor: Tensor) -> Tensor:
            if soft or self.estimator is None:
                return tensor
            return self.estimator.addressing_view(tensor)

        return head(seen(h_BH), self.address_KA, seen(state.content_BKC), seen(v_BK))

    def weights(
        self, pi_BK: Tensor, noise_BK: Tensor | None, h_BH: Tensor, spare_BSK: Tensor | None
    ) -> Tensor:
        """w_BK of a head."""
        return torch.softmax(pi_BK, dim=1)

    def _content(self, h_BH: Tensor, zx_BY: Tensor) -> tuple[Tensor, Tensor]:
        """The values to write: (erase_BC, new content_BC)."""
        width = self.memory_config.content
        erase_BC, zh_BC, alpha_h_B1 = self.W_h(h_BH).split([width, width, 1], dim=1)
        zx_BC, alpha_x_B1 = zx_BY.split([width, 1], dim=1)
        alpha_B1 = torch.sigmoid(alpha_h_B1 + alpha_x_B1)
        return torch.sigmoid(erase_BC), torch.relu(zh_BC + alpha_B1 * zx_BC)

    def _reads(self, choices: Sequence[Tensor], soft: bool) -> Reads | None:
        """What was read and written, of the discrete form."""
        if not self.discrete:
            return None
        read_pi_TBK, read_TBK, write_pi_TBK, write_TBK = choices
        cells = read_TBK.argmax(-1), write_TBK.argmax(-1)
        return Reads(read_pi_TBK, *cells, write_pi_TBK, soft)


@MODELS.register("dntm-discrete")
class DntmDiscrete(Dntm):
    """The discrete form: each head takes one cell, and an estimator passes the gradient."""

    discrete = True
    Memory = DntmDiscreteMemory
    memory_config: DntmDiscreteMemory
    estimator: Estimator
    soft_probability = 0.0  # of the next batch

    def choosing(self) -> Sequence[nn.Module]:
        return (self.read_head, self.write_head)

    def before_batch(self, progress: float) -> None:
        self.estimator.before_batch(progress)
        if self.memory_config.curriculum:
            lowered = math.floor(progress * self.memory_config.curriculum)
            self.soft_probability = 1 / math.sqrt(1 + lowered)

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> DntmNoise:
        noise = super().draw_noise(x_TBD, generator)
        if not self.soft_probability:
            return noise
        drawn = torch.rand((), generator=generator, device=generator.device)
        return noise._replace(soft=bool(drawn < self.soft_probability))

    def weights(
        self, pi_BK: Tensor, noise_BK: Tensor | None, h_BH: Tensor, spare_BSK: Tensor | None
    ) -> Tensor:
        return self.estimator.read_weights(pi_BK, noise_BK, h_BH, spare_BSK)
