"""A whole network: inputs are encoded, a sequence model runs over them, heads predict."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.models.base import Hidden, SequenceModel, State, drop
from tardis_core.models.heads import MemoryHead, OutputHead


class Prediction(NamedTuple):
    """The prediction of a network for a sequence."""

    logits_TBO: Tensor
    memory_logits_TBO: Tensor | None  # by the memory-only head, where there is one
    hidden: Hidden
    x_TBD: Tensor  # the encoded inputs
    noise: Any = None  # of the sequence model: with it the same happens again
    dropout_NG: Tensor | None = None  # of the output head, at the N steps that are asked for


class Encoder(nn.Module):
    """Symbols become one-hot or learned vectors; vectors pass as they are."""

    def __init__(
        self, inputs: int, symbols: bool, embedding: int, boundary: int | None = None
    ) -> None:
        super().__init__()
        self.inputs, self.symbols, self.boundary = inputs, symbols, boundary
        self.embedding = nn.Embedding(inputs, embedding) if symbols and embedding else None
        self.width = embedding if self.embedding is not None else inputs

    def forward(self, inputs: Tensor, dtype: torch.dtype) -> Tensor:
        """x_TBD"""
        if self.embedding is not None:
            return self.embedding(inputs)
        return F.one_hot(inputs, self.inputs).to(dtype) if self.symbols else inputs.to(dtype)

    def boundary_TB(self, inputs: Tensor) -> Tensor | None:
        """True at the inputs that end the first part of a sequence."""
        if self.boundary is None:
            return None
        return inputs == self.boundary if self.symbols else inputs[..., self.boundary] > 0.5


class Network(nn.Module):
    """Encoder, sequence model, output head, and the memory-only head where it is needed."""

    def __init__(
        self,
        encoder: Encoder,
        model: SequenceModel,
        head: OutputHead,
        memory_head: MemoryHead | None,
        dropout: float,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.model = model
        self.head = head
        self.memory_head = memory_head
        self.dropout = dropout

    def forward(
        self,
        inputs: Tensor,
        state: State | None = None,
        mask_TB: Tensor | None = None,
        generator: torch.Generator | None = None,
        asked_TB: Tensor | None = None,
    ) -> tuple[Prediction, State]:
        """Predict at every step.

        Args:
            inputs: symbols_TB or vectors_TBD.
            state: what an earlier call returned, or None to start.
            mask_TB: False where a sequence has no step.
            generator: the source of all noise; without it the network is deterministic.
            asked_TB: False where nobody looks at the prediction, whose logits are then zero; None
                asks for all.
        """
        x_TBD = self.encoder(inputs, self.head.W_o.weight.dtype)
        noise = None
        if generator is not None:
            x_TBD = drop(x_TBD, self.dropout, generator)
            noise = self.model.draw_noise(x_TBD, generator)
        about = (self.encoder.boundary_TB(inputs), asked_TB) if self.model.two_parts else ()
        hidden, state = self.model(x_TBD, state, mask_TB, noise, *about)
        at_N = steps_asked(asked_TB)
        dropout_NG = None
        if generator is not None:
            steps = hidden.h_TBH.shape[:2].numel() if at_N is None else len(at_N)
            dropout_NG = self.head.draw_dropout(steps, hidden.h_TBH, generator)
        heads = self.predict(hidden, x_TBD, at_N, dropout_NG)
        return Prediction(*heads, hidden, x_TBD, noise, dropout_NG), state

    def predict(
        self,
        hidden: Hidden,
        x_TBD: Tensor,
        at_N: Tensor | None = None,
        dropout_NG: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """The logits of the output head and of the memory-only head, where there is one.

        Args:
            at_N: of `steps_asked`.
            dropout_NG: of the output head at these steps; None drops nothing.
        """
        seen = [hidden.h_TBH, hidden.r_TBQ]
        logits_TBO = _at_steps(lambda h, r: self.head(h, r, dropout_NG), seen, at_N)
        if self.memory_head is None or hidden.r_TBQ is None:
            return logits_TBO, None
        return logits_TBO, _at_steps(self.memory_head, [hidden.r_TBQ, x_TBD], at_N)


def steps_asked(asked_TB: Tensor | None) -> Tensor | None:
    """The numbers of the steps at which a prediction is asked for; None stands for all."""
    if asked_TB is None:
        return None
    at_N = asked_TB.flatten().nonzero().flatten()
    return None if len(at_N) == asked_TB.numel() else at_N


def _at_steps(
    head: Callable[..., Tensor], seen: list[Tensor | None], at_N: Tensor | None
) -> Tensor:
    """The head at some steps and zero elsewhere: often most steps are not asked for."""
    if at_N is None:
        return head(*seen)
    logits_NO = head(*(None if each is None else each.flatten(0, 1)[at_N] for each in seen))
    shape = next(each for each in seen if each is not None).shape[:2]
    zeros = logits_NO.new_zeros(shape.numel(), logits_NO.shape[-1])
    return zeros.index_copy(0, at_N, logits_NO).unflatten(0, shape)
