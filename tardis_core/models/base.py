"""The interface of a sequence model: inputs and a state in, hidden states and a state out.

Nothing of a sequence is kept on the module. A state is a named tuple of tensors whose first axis is
the batch; named tuples may be nested.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from tardis_core.errors import require
from tardis_core.kernels import Needs
from tardis_core.registry import Registry
from tardis_core.settings import setting

State = Any  # a (nested) named tuple of tensors


class Reads(NamedTuple):
    """The discrete choices of a sequence."""

    pi_TBK: Tensor  # read logits, the last-read penalty included
    read_TB: Tensor  # the cell that was read, int64
    written_TB: Tensor  # the cell that was written, int64
    write_pi_TBK: Tensor | None = None  # write logits, for models that choose where to write
    soft: bool = False  # whether all cells were mixed, by the logits, and those above only led


class Hidden(NamedTuple):
    """The outputs of a sequence model."""

    h_TBH: Tensor
    r_TBQ: Tensor | None = None  # what was read, for models with a memory
    reads: Reads | None = None  # how it was chosen, for models that choose
    reset_TB2: Tensor | None = None  # (alpha, beta), for models with RESET gates
    statistics: Any = None  # of the batch, for models that keep averages of them


@dataclass(frozen=True)
class ModelConfig:
    """The settings that all sequence models share."""

    hidden: int = setting(128, "number of hidden units (H)")
    embedding: int = setting(
        0, "width of learned vectors for input symbols; 0 uses one-hot vectors"
    )
    head: int = setting(0, "width of the hidden layer of the output head; 0 uses model.hidden")
    dropout: float = setting(
        0.0, "dropout rate of the inputs and of the output head's hidden layer"
    )
    backend: Literal["auto", "reference", "torch", "native", "triton"] = setting(
        "auto",
        "implementation of the time loop; all compute the same, auto takes the fastest available",
    )

    def __post_init__(self) -> None:
        require(self.hidden >= 1, f"model.hidden must be at least 1, not {self.hidden}")
        require(self.embedding >= 0, f"model.embedding must not be negative: {self.embedding}")
        require(self.head >= 0, f"model.head must not be negative: {self.head}")
        require_rates(self, "dropout")


def require_rates(config: ModelConfig, *names: str) -> None:
    """Raise `UserError` unless these settings are shares of what is dropped."""
    for name in names:
        rate = getattr(config, name)
        require(0 <= rate < 1, f"model.{name} must be at least 0 and below 1, not {rate}")


class SequenceModel(nn.Module, ABC):
    """The interface; a model is made by `Model(inputs, model_config, memory_config, estimator)`."""

    Config: ClassVar[type[ModelConfig]] = ModelConfig
    Memory: ClassVar[type | None] = None  # the class of the `memory` section, if there is one
    discrete: ClassVar[bool] = False  # whether it needs an estimator
    reads_alone: ClassVar[bool] = False  # whether reads are all it chooses: each can be tried
    two_parts: ClassVar[bool] = False  # whether `forward` also takes `boundary_TB` and `asked_TB`
    recurrence: ClassVar[str | None] = None  # of `kernel_needs`; see `declared`

    config: ModelConfig
    read_width: int = 0

    @property
    def output_width(self) -> int:
        """The width of the hidden states that the output head sees."""
        return self.config.hidden

    @abstractmethod
    def initial_state(self, batch: int, like: Tensor) -> State:
        """The state before the first step, on the device and in the type of `like`."""

    @abstractmethod
    def draw_noise(self, x_TBD: Tensor, generator: torch.Generator) -> Any:
        """All the noise that training on this sequence needs, drawn at once."""

    @abstractmethod
    def forward(
        self,
        x_TBD: Tensor,
        state: State | None = None,
        mask_TB: Tensor | None = None,
        noise: Any = None,
    ) -> tuple[Hidden, State]:
        """Run a sequence; where the mask is False the state stays as it is.

        Without noise the model is deterministic, as at evaluation.
        """

    def kernel_needs(self) -> Needs:
        """What a backend of `tardis_core.kernels` must provide; the default has no kernel."""
        return Needs()

    def choosing(self) -> Sequence[nn.Module]:
        """The parts that choose cells; an estimator may train them at a rate of its own."""
        return ()

    def before_batch(self, progress: float) -> None:
        """Make ready for a batch of training; `progress` is the share of the training done."""

    def after_batch(self, hidden: Hidden, progress: float) -> None:
        """Take note of a batch, after its update; `progress` is the share of the training done.

        For averages over batches and for schedules; nothing of a sequence may stay.
        """


def declared(part: nn.Module, name: str) -> Any:
    """A class attribute that says which kernel computes the same as this class.

    It counts for the class that declares it: a subclass may compute something else.
    """
    return vars(type(part)).get(name)


MODELS: Registry[type[SequenceModel]] = Registry("model", "tardis_core.models")


def map_state(function: Callable[..., Tensor], *states: State) -> State:
    """Apply a function to the tensors of one or more states of the same structure."""
    first = states[0]
    if isinstance(first, Tensor):
        return function(*states)
    return type(first)(*(map_state(function, *parts) for parts in zip(*states, strict=True)))


def flatten_state(state: State) -> list[Tensor]:
    """The tensors of a state, in order."""
    if isinstance(state, Tensor):
        return [state]
    return [tensor for part in state for tensor in flatten_state(part)]


def keep_where_masked(mask_B: Tensor, new: State, old: State) -> State:
    """The new state where the mask is True, the old one elsewhere."""

    def select(after: Tensor, before: Tensor) -> Tensor:
        return torch.where(mask_B.view(-1, *[1] * (after.dim() - 1)), after, before)

    return map_state(select, new, old)


def unroll(
    step: Callable[..., tuple[State, tuple[Any, ...]]],
    over: Sequence[Tensor | None],
    state: State,
    mask_TB: Tensor | None,
) -> tuple[list[Any], State]:
    """Run a step over time; where the mask is False the state stays as it is.

    Args:
        step: called with the state and one step of each of `over`; returns the new state and a
            tuple of its outputs.
        over: sequences, time first; those that are None stay None.

    Returns:
        the outputs of all steps, stacked, in the order of the step's tuple; and the last state
    """
    length = next(len(each) for each in over if each is not None)
    steps = zip(*([None] * length if each is None else each.unbind() for each in over), strict=True)
    outputs_by_step = []
    for t, inputs in enumerate(steps):
        new, outputs = step(state, *inputs)
        state = new if mask_TB is None else keep_where_masked(mask_TB[t], new, state)
        outputs_by_step.append(outputs)
    return [torch.stack(each) for each in zip(*outputs_by_step, strict=True)], state


def dropout_mask(
    shape: tuple[int, ...], rate: float, like: Tensor, generator: torch.Generator
) -> Tensor | None:
    """A mask of zeros and 1 / (1 - rate), or None where nothing is dropped.

    Drawing one number per element takes longer than all else around it, so each number serves four
    elements: the rate is rounded to a multiple of 2^-16, and the scale is that of the rounded rate.
    """
    if rate == 0:
        return None
    count = math.prod(shape)
    dropped = min(round(rate * 2**16), 2**16 - 1)
    drawn = torch.empty(-(-count // 4), dtype=torch.int64, device=like.device)
    bits = drawn.random_(-(2**63), None, generator=generator).view(torch.int16)[:count]
    kept = (bits >= dropped - 2**15).to(like.dtype)
    return kept.mul_(2**16 / (2**16 - dropped)).view(shape)


def drop(tensor: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Dropout whose noise comes from the run's own generator."""
    mask = dropout_mask(tuple(tensor.shape), rate, tensor, generator)
    return tensor if mask is None else tensor * mask
