"""ARMIN: TARDIS without addresses; the cell to read follows from the state alone (Li et al. 2019).

"ARMIN: Towards a More Efficient and Light-weight Recurrent Memory Network" (arXiv 1906.12087). The
read logits are a linear function of the input and of the state, one row per cell, and what is read
has gates of its own:

    pi = W_pi [x_t, h_{t-1}],  w = one cell of pi,  r = M^T w
    g_h, g_r = sigm(W_g [x_t, h_{t-1}, r])
    i, j, f, o_h, o_r = W [x_t, g_h h_{t-1}, g_r r]
    h_t = tanh(sigm(f) h_{t-1} + sigm(i) tanh(j))
    output: sigm(o_h) h_t and sigm(o_r) r

The micro-state W_m [x_t, h_t] is written to the cells in order while there are empty ones, later to
the cell just read. What h and the memory hold before the first step is learned.

DEVIATION(reads): by our estimators. The authors' code reads softly on algorithmic tasks. On
permuted MNIST it has Gumbel-softmax, whose inverse temperature grows by one per epoch; that of our
`gumbel` is learned.
DEVIATION(micro-state): as in the authors' code for algorithmic tasks. On permuted MNIST it leaves
out x_t, and Figure 1 of the paper writes h_t itself. Their memory starts at zero; ours, learned as
well, at small random numbers.

Letters: B batch, T time, D input, H hidden, K cells, C content.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tardis_core.estimators.base import Estimator, one_hot_argmax
from tardis_core.models import memory as mem
from tardis_core.models.base import (
    MODELS,
    Hidden,
    ModelConfig,
    Reads,
    SequenceModel,
    dropout_mask,
    require_rates,
    unroll,
)
from tardis_core.models.baselines.soft_memory import SoftMemoryConfig
from tardis_core.settings import setting


@dataclass(frozen=True)
class ArminConfig(ModelConfig):
    """The cell."""

    forget_bias: float = setting(1.0, "initial bias of the forget gate")
    recurrent_dropout: float = setting(0.0, "dropout rate of the candidate state")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_rates(self, "recurrent_dropout")


class ArminState(NamedTuple):
    """The state between two steps."""

    h_BH: Tensor
    memory_BKC: Tensor
    steps_B: Tensor  # int64: the next cell to fill while below K


class ArminNoise(NamedTuple):
    """The noise of a whole sequence."""

    read_TBK: Tensor | None = None  # Gumbel, on the read logits
    dropout_TBH: Tensor | None = None
    spare_TBSK: Tensor | None = None  # of the estimator, for the way back


class Projections(NamedTuple):
    """What the inputs alone add to each product, of a sequence or of a step."""

    logits_TBK: Tensor
    gates_TBG: Tensor
    cell_TBG: Tensor
    written_TBC: Tensor


@MODELS.register("armin")
class Armin(SequenceModel):
    """One matrix per product and source: from the input, and from the state (and what was read)."""

    Config = ArminConfig
    Memory = SoftMemoryConfig
    config: ArminConfig
    from_x: Any  # a ModuleList of Linear
    discrete = True

    def __init__(
        self, inputs: int, model: ArminConfig, memory: SoftMemoryConfig, estimator: Estimator
    ) -> None:
        super().__init__()
        self.config, self.memory_config, self.estimator = model, memory, estimator
        self.read_width = memory.content
        H, K, C = model.hidden, memory.cells, memory.content
        rows = (K, H + C, 4 * H + C, C)
        self.from_x = nn.ModuleList(nn.Linear(inputs, width) for width in rows)
        self.W_pi = nn.Linear(H, K, bias=False)
        self.W_g = nn.Linear(H + C, H + C, bias=False)
        self.W = nn.Linear(H + C, 4 * H + C, bias=False)
        self.W_m = nn.Linear(H, C, bias=False)
        self.h_H = nn.Parameter(torch.rand(H))
        self.memory_KC = nn.Parameter(0.01 * torch.randn(K, C))
        with torch.no_grad():
            for gate in range(4):
                nn.init.orthogonal_(self.W.weight[gate * H : (gate + 1) * H, :H])
            self.from_x[2].bias[2 * H : 3 * H] += model.forget_bias

    def initial_state(self, batch: int, like: Tensor) -> ArminState:
        return ArminState(
            torch.tanh(self.h_H).expand(batch, -1),
            self.memory_KC.expand(batch, -1, -1),
            torch.zeros(batch, dtype=torch.int64, device=like.device),
        )

    def choosing(self) -> Sequence[nn.Module]:
        return (self.from_x[0], self.W_pi)

    def before_batch(self, progress: float) -> None:
        self.estimator.before_batch(progress)

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> ArminNoise:
        T, B = x_TBD.shape[:2]
        dropout_TBH = dropout_mask(
            (T, B, self.config.hidden), self.config.recurrent_dropout, x_TBD, generator
        )
        cells = (T, B, self.memory_config.cells)
        read_TBK, spare_TBSK = self.estimator.draw_noise(cells, x_TBD, generator)
        return ArminNoise(read_TBK, dropout_TBH, spare_TBSK)

    def forward(
        self,
        x_TBD: Tensor,
        state: ArminState | None = None,
        mask_TB: Tensor | None = None,
        noise: ArminNoise | None = None,
    ) -> tuple[Hidden, ArminState]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        projections = Projections(*(layer(x_TBD) for layer in self.from_x))
        over = [*projections, *(noise or ArminNoise())]
        (h, r, *choices), state = unroll(self.step, over, state, mask_TB)
        return Hidden(h, r, Reads(*choices)), state

    def step(
        self,
        state: ArminState,
        logits_BK: Tensor,
        gates_BG: Tensor,
        cell_BG: Tensor,
        written_BC: Tensor,
        noise_BK: Tensor | None,
        dropout_BH: Tensor | None,
        spare_BSK: Tensor | None,
    ) -> tuple[ArminState, tuple[Tensor, ...]]:
        """Choose and read, update the state, write."""
        h_BH, dtype = state.h_BH, state.memory_BKC.dtype
        pi_BK = logits_BK + self.W_pi(self.estimator.addressing_view(h_BH))
        w_BK = self.estimator.read_weights(pi_BK, noise_BK, h_BH, spare_BSK)
        r_BC = torch.bmm(w_BK.unsqueeze(1).to(dtype), state.memory_BKC).squeeze(1).to(dtype)
        new_BH, outputs = self._cell(h_BH, r_BC, gates_BG, cell_BG, dropout_BH)

        read_BK = one_hot_argmax(w_BK)  # of a soft read, too, one cell is written
        place_BK = mem.write_cell(read_BK, state.steps_B)
        microstate_BC = (written_BC + self.W_m(new_BH)).to(dtype)
        memory_BKC = mem.write(state.memory_BKC, place_BK, microstate_BC)
        chosen = (pi_BK, read_BK.argmax(1), place_BK.to(torch.int64).argmax(1))
        return ArminState(new_BH, memory_BKC, state.steps_B + 1), (*outputs, *chosen)

    def _cell(
        self,
        h_BH: Tensor,
        r_BC: Tensor,
        gates_BG: Tensor,
        cell_BG: Tensor,
        dropout_BH: Tensor | None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The new h_BH, and the outputs (h_BH, r_BC) behind their gates."""
        H = self.config.hidden
        seen_BG = torch.cat([h_BH, r_BC], dim=1)
        seen_BG = seen_BG * torch.sigmoid(gates_BG + self.W_g(seen_BG))
        z_BG = cell_BG + self.W(seen_BG)
        i, j, f, o_h, o_r = z_BG.split([H, H, H, H, self.read_width], dim=1)
        candidate_BH = torch.tanh(j) if dropout_BH is None else torch.tanh(j) * dropout_BH
        new_BH = torch.tanh(torch.sigmoid(f) * h_BH + torch.sigmoid(i) * candidate_BH)
        new_BH = new_BH.to(h_BH.dtype)
        return new_BH, (torch.sigmoid(o_h) * new_BH, torch.sigmoid(o_r) * r_BC)
