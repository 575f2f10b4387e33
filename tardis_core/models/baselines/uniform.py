"""uMANN and urMANN: TARDIS's memory with nothing learned about where to read.

Gulcehre, Chandar, Bengio 2017, section 4, compares them with TARDIS to ask what wormholes are worth
when they lead anywhere: urMANN reads a cell drawn uniformly and fills the memory in order, uMANN
draws the cell of the write, too. All else is TARDIS's own code. There is no choice to learn, so
there is no estimator.

DEVIATION(sec. 4): the paper's urMANN has a cell for every step. Here a full memory is written where
it was read, as by TARDIS, so that the two differ in the reads alone.

Letters: B batch, T time, D input, H hidden, K cells.
"""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from tardis_core.models.base import MODELS, Hidden, keep_where_masked
from tardis_core.models.controller import recurrent_dropout
from tardis_core.models.tardis import (
    CellsConfig,
    TardisConfig,
    TardisState,
    WormholeModel,
    stack_steps,
)

FIXED_STEPS = 1024  # after these the cells of an evaluation repeat


class UniformNoise(NamedTuple):
    """The noise of a whole sequence: the cells to read and to write, and the controller's."""

    cells_TB2: Tensor  # int64
    reset_TB2: Tensor | None
    dropout_TBH: Tensor | None

    def at(self, t: int) -> "UniformNoise":
        """One step of it."""
        reset, dropout = self.reset_TB2, self.dropout_TBH
        return UniformNoise(
            self.cells_TB2[t],
            None if reset is None else reset[t],
            None if dropout is None else dropout[t],
        )


class UniformModel(WormholeModel):
    """Reads, and perhaps writes, at cells drawn uniformly.

    Without noise the cells are those of a fixed random sequence, drawn once with the weights.
    """

    uniform_writes: ClassVar[bool]
    fixed_N2: Tensor

    def __init__(
        self, inputs: int, model: TardisConfig, memory: CellsConfig, estimator: None
    ) -> None:
        super().__init__()
        self._build(inputs, model, memory)
        cells = torch.randint(memory.cells, (FIXED_STEPS, 2))
        self.register_buffer("fixed_N2", cells)  # saved with the model, never trained

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> UniformNoise:
        shape = (*x_TBD.shape[:2], 2)
        return UniformNoise(
            torch.randint(
                self.memory_config.cells, shape, generator=generator, device=x_TBD.device
            ),
            self.draw_reset(x_TBD, generator),
            recurrent_dropout(self.config, x_TBD, generator),
        )

    def forward(
        self,
        x_TBD: Tensor,
        state: TardisState | None = None,
        mask_TB: Tensor | None = None,
        noise: UniformNoise | None = None,
    ) -> tuple[Hidden, TardisState]:
        state = state or self.initial_state(x_TBD.shape[1], x_TBD)
        steps = []
        for t, zx_BG in enumerate(self.controller.project_inputs(x_TBD).unbind()):
            if noise is None:
                now = UniformNoise(self.fixed_N2[state.memory.steps_B % FIXED_STEPS], None, None)
            else:
                now = noise.at(t)
            new, output = self.step(zx_BG, state, now)
            state = new if mask_TB is None else keep_where_masked(mask_TB[t], new, state)
            steps.append(output)
        return stack_steps(steps), state

    def step(
        self, zx_BG: Tensor, state: TardisState, noise: UniformNoise
    ) -> tuple[TardisState, Hidden]:
        """Algorithm 1 with w drawn from a uniform distribution, and for uMANN the write's, too."""
        w_BK, place_BK = F.one_hot(noise.cells_TB2, self.memory_config.cells).unbind(1)
        w_BK = w_BK.to(state.memory.last_read_BK.dtype)
        return self.advance(
            zx_BG,
            torch.zeros_like(w_BK),  # the logits of a uniform choice
            w_BK,
            state,
            noise.reset_TB2,
            noise.dropout_TBH,
            place_BK.bool() if self.uniform_writes else None,
        )


@MODELS.register("umann")
class Umann(UniformModel):
    """Uniform reads and uniform writes, independent of each other."""

    uniform_writes = True


@MODELS.register("urmann")
class Urmann(UniformModel):
    """Uniform reads; writes fill the memory in order, then go where was read."""

    uniform_writes = False
