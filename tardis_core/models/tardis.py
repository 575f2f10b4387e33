"""TARDIS: an LSTM controller whose memory holds its own past states (Algorithm 1 of the paper).

Letters: B batch, T time, D input, H hidden, K cells, A address, C content, Q = A + C, P attention.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from tardis_core import kernels
from tardis_core.errors import require
from tardis_core.estimators.base import Estimator, one_hot_argmax
from tardis_core.estimators.noise import gumbel
from tardis_core.models import memory as mem
from tardis_core.models.addressing import Addressing, CellWeights
from tardis_core.models.base import (
    MODELS,
    Hidden,
    Reads,
    SequenceModel,
    declared,
    keep_where_masked,
)
from tardis_core.models.controller import (
    RESET_GATES,
    Controller,
    ControllerState,
    LstmConfig,
    recurrent_dropout,
)
from tardis_core.models.tardis_tensors import (
    hidden_and_state,
    kernel_tensors,
    modules_of,
    parameter_of,
)
from tardis_core.settings import setting

FEWEST_CELLS = 0.25  # the smallest share of the cells in a batch that varies them
CERTAIN = 1e6  # as noise on a read logit: far above any logit and any penalty


@dataclass(frozen=True)
class TardisConfig(LstmConfig):
    """The controller."""

    reset_gates: bool = setting(
        True, "whether the RESET gates alpha and beta exist (the paper's + R)"
    )
    reset_bias: float = setting(
        1.0, "initial bias of the RESET gates; positive values start them open"
    )


@dataclass(frozen=True)
class CellsConfig:
    """The cells of the external memory."""

    cells: int = setting(16, "number of memory cells (K)")
    address: int = setting(4, "width of a cell's fixed address (A)")
    content: int = setting(32, "width of a cell's content, the micro-state (C)")
    address_density: float = setting(0.5, "share of the entries of an address that are not zero")
    address_scale: float = setting(1.0, "standard deviation of the non-zero entries of an address")

    def __post_init__(self) -> None:
        for name in ("cells", "address", "content"):
            value = getattr(self, name)
            require(value >= 1, f"memory.{name} must be at least 1, not {value}")
        density = self.address_density
        require(0 < density <= 1, f"memory.address_density must be in (0, 1], not {density}")
        scale = self.address_scale
        require(scale > 0, f"memory.address_scale must be above 0, not {scale}")


@dataclass(frozen=True)
class MemoryConfig(CellsConfig):
    """The external memory and the MLP that addresses it."""

    attention: int = setting(0, "width of the addressing MLP (P); 0 uses a quarter of model.hidden")
    gain: float = setting(1.0, "factor on the initial weights of the cells in the read logits")
    match: bool = setting(
        False, "whether reads initially prefer cells whose content resembles the state"
    )
    vary_cells_from: float = setting(
        1.0,
        "share of the updates after which every batch uses a random number of cells, a quarter to "
        "all of them; only later validations can be the best; 1 always uses all cells",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        start = self.vary_cells_from
        require(0 <= start <= 1, f"memory.vary_cells_from must be in [0, 1], not {start}")
        require(self.attention >= 0, f"memory.attention must not be negative: {self.attention}")
        require(self.gain > 0, f"memory.gain must be above 0, not {self.gain}")


class TardisState(NamedTuple):
    """The state between two steps."""

    controller: ControllerState
    memory: mem.MemoryState


class TardisNoise(NamedTuple):
    """The noise of a whole sequence; the parts that are off are None."""

    read_TBK: Tensor  # Gumbel, on the read logits
    reset_TB2: Tensor | None  # logistic, on the logits of alpha and beta
    dropout_TBH: Tensor | None  # recurrent dropout
    spare_TBSK: Tensor | None = None  # of the estimator, for the way back

    def map(self, function: Callable[[Tensor], Tensor]) -> "TardisNoise":
        """A function of the parts that are on."""
        return TardisNoise._make(None if part is None else function(part) for part in self)

    def at(self, t: int) -> "TardisNoise":
        """One step of it."""
        return self.map(lambda part: part[t])

    def reading(self, step_B: Tensor, cell_B: Tensor) -> "TardisNoise":
        """The same noise, but at one step of each sequence it leaves no choice."""
        read_TBK, everyone = self.read_TBK.clone(), torch.arange(len(step_B), device=step_B.device)
        read_TBK[step_B, everyone, cell_B] = CERTAIN
        return self._replace(read_TBK=read_TBK)


class WormholeModel(SequenceModel):
    """An LSTM whose memory holds its own past states; a subclass chooses the cells."""

    Config = TardisConfig
    Memory: ClassVar[type] = CellsConfig
    config: TardisConfig
    address_KA: Tensor

    def _build(self, inputs: int, model: TardisConfig, memory: CellsConfig) -> None:
        """The parts beside the choice of cells; a subclass calls it when its own are made."""
        self.config, self.memory_config = model, memory
        self.read_width = memory.address + memory.content
        self.controller = Controller(
            inputs,
            model.hidden,
            self.read_width,
            reset_gates=model.reset_gates,
            layer_norm=model.layer_norm,
            norm_gain=model.norm_gain,
            forget_bias=model.forget_bias,
            reset_bias=model.reset_bias,
        )
        # The paper calls this one W_m too; it is not the W_m of the read logits.
        self.W_m = nn.Linear(model.hidden, memory.content, bias=False)
        addresses = mem.sparse_addresses(
            memory.cells,
            memory.address,
            memory.address_density,
            memory.address_scale,
            torch.default_generator,
        )
        self.register_buffer("address_KA", addresses)  # saved with the model, never trained

    def initial_state(self, batch: int, like: Tensor, cells: int | None = None) -> TardisState:
        size = self.memory_config
        return TardisState(
            ControllerState.empty(batch, self.config.hidden, like),
            mem.empty(batch, cells or size.cells, size.content, like),
        )

    def draw_reset(self, x_TBD: Tensor, generator: torch.Generator) -> Tensor | None:
        """Logistic noise of the RESET gates."""
        if not self.config.reset_gates:
            return None
        one, other = gumbel((2, *x_TBD.shape[:2], RESET_GATES), x_TBD, generator)
        return one - other  # the difference of two Gumbels is logistic

    def advance(
        self,
        zx_gates_BG: Tensor,
        pi_BK: Tensor,
        w_BK: Tensor,
        state: TardisState,
        reset_noise_B2: Tensor | None,
        dropout_BH: Tensor | None,
        place_BK: Tensor | None = None,
    ) -> tuple[TardisState, Hidden]:
        """What follows the choice: read, update the controller, write its micro-state.

        Args:
            pi_BK: the read logits, reported and not used.
            w_BK: the read weights.
            place_BK: the one-hot place of the write; None takes that of Algorithm 1.
        """
        memory = state.memory
        r_BQ = mem.read(w_BK, self.address_KA[: w_BK.shape[1]], memory.content_BKC)
        controller, reset_B2 = self.controller(
            zx_gates_BG, r_BQ, state.controller, reset_noise_B2, dropout_BH
        )
        # Usage, penalty and the place of the write are those of one cell, and carry no gradient:
        # an argmax has none.
        read_BK = one_hot_argmax(w_BK)
        if place_BK is None:
            place_BK = mem.write_cell(read_BK, memory.steps_B)
        microstate_BC = self.W_m(controller.h_BH)
        memory = mem.MemoryState(
            content_BKC=mem.write(memory.content_BKC, place_BK, microstate_BC),
            reads_BK=memory.reads_BK + read_BK,
            last_read_BK=read_BK,
            steps_B=memory.steps_B + 1,
        )
        reads = Reads(pi_BK, read_BK, place_BK)
        return TardisState(controller, memory), Hidden(controller.h_BH, r_BQ, reads, reset_B2)


@MODELS.register("tardis")
class Tardis(WormholeModel):
    """At every step: choose a cell, read it, update the controller, write its micro-state."""

    Memory = MemoryConfig
    memory_config: MemoryConfig
    discrete = True
    reads_alone = True
    recurrence = "tardis"

    def __init__(
        self, inputs: int, model: TardisConfig, memory: MemoryConfig, estimator: Estimator
    ) -> None:
        super().__init__()
        self.estimator = estimator
        self._progress = 0.0  # the share of the training that is done
        self.addressing = Addressing(
            inputs=inputs,
            hidden=model.hidden,
            cells=memory.cells,
            address=memory.address,
            content=memory.content,
            width=memory.attention or max(1, model.hidden // 4),
            memory_gain=memory.gain,
        )
        self._build(inputs, model, memory)
        if memory.match:
            self.addressing.match(self.W_m.weight)

    def choosing(self) -> Sequence[nn.Module]:
        return (self.addressing,)

    def before_batch(self, progress: float) -> None:
        self._progress = progress
        self.estimator.before_batch(progress)

    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> TardisNoise:
        reset_TB2 = self.draw_reset(x_TBD, generator)
        shape = (*x_TBD.shape[:2], self._draw_cells(generator))
        read_TBK, spare_TBSK = self.estimator.draw_noise(shape, x_TBD, generator)
        dropout_TBH = recurrent_dropout(self.config, x_TBD, generator)
        return TardisNoise(read_TBK, reset_TB2, dropout_TBH, spare_TBSK)

    def _draw_cells(self, generator: torch.Generator) -> int:
        """The number of cells of a batch."""
        # DEVIATION(alg 1): a memory that overflows at all lengths teaches what to keep of a
        # sequence that is too long, and to know what was not kept.
        most = self.memory_config.cells
        fewest = max(1, round(FEWEST_CELLS * most))
        start = self.memory_config.vary_cells_from
        if fewest == most or start == 1 or self._progress < start:
            return most
        return int(
            torch.randint(fewest, most + 1, (), generator=generator, device=generator.device)
        )

    def cells_of(self, state: TardisState | None, noise: TardisNoise | None) -> int:
        """The number of cells of a sequence: that of its state or, if it begins, of its noise."""
        if state is not None:
            return state.memory.reads_BK.shape[1]
        return self.memory_config.cells if noise is None else noise.read_TBK.shape[-1]

    def kernel_needs(self) -> kernels.Needs:
        parts = modules_of(self)
        estimator = parts["estimator"]
        return kernels.Needs(
            declared(self, "recurrence"),
            declared(estimator, "read_gradient"),
            parameter_of(parts["controller"], "b").dtype,
            type(estimator).__name__,
        )

    def forward(
        self,
        x_TBD: Tensor,
        state: TardisState | None = None,
        mask_TB: Tensor | None = None,
        noise: TardisNoise | None = None,
    ) -> tuple[Hidden, TardisState]:
        backend = kernels.resolve(self, x_TBD)
        if backend != "reference":
            tensors = kernel_tensors(self, x_TBD, state, mask_TB, noise)
            hidden, controller, memory = hidden_and_state(kernels.run(backend, *tensors))
            return hidden, TardisState(controller, memory)
        K = self.cells_of(state, noise)
        state = state or self.initial_state(x_TBD.shape[1], x_TBD, K)
        # What does not depend on the step before is computed for the whole sequence.
        zx_gates_TBG = self.controller.project_inputs(x_TBD)
        zx_read_TBP = self.addressing.W_x(self.estimator.addressing_view(x_TBD))
        cells = self.addressing.cell_weights(self.address_KA[:K])
        steps = []
        for t, (zx_gates_BG, zx_read_BP) in enumerate(
            zip(zx_gates_TBG.unbind(), zx_read_TBP.unbind(), strict=True)
        ):
            new, output = self.step(
                zx_gates_BG, zx_read_BP, cells, state, noise.at(t) if noise else None
            )
            state = new if mask_TB is None else keep_where_masked(mask_TB[t], new, state)
            steps.append(output)
        return stack_steps(steps), state

    def step(
        self,
        zx_gates_BG: Tensor,
        zx_read_BP: Tensor,
        cells: CellWeights,
        state: TardisState,
        noise: TardisNoise | None,
    ) -> tuple[TardisState, Hidden]:
        """One turn of the loop of Algorithm 1."""
        h_BH, memory = state.controller.h_BH, state.memory
        seen = self.estimator.addressing_view

        pi_BK = self.addressing(
            seen(h_BH),
            zx_read_BP,
            cells,
            memory._replace(content_BKC=seen(memory.content_BKC)),
        )
        read_BK, reset_B2, dropout_BH, spare_BSK = noise or (None, None, None, None)
        w_BK = self.estimator.read_weights(pi_BK, read_BK, h_BH, spare_BSK)
        return self.advance(zx_gates_BG, pi_BK, w_BK, state, reset_B2, dropout_BH)


def stack_steps(steps: list[Hidden]) -> Hidden:
    """The steps of a sequence as one, one-hot choices as indices."""
    h, r, reads, reset, *_ = zip(*steps, strict=True)
    pi, read, place, *_ = zip(*reads, strict=True)
    return Hidden(
        torch.stack(h),
        torch.stack(r),
        Reads(torch.stack(pi), torch.stack(read).argmax(-1), torch.stack(place).long().argmax(-1)),
        None if reset[0] is None else torch.stack(reset),
    )
