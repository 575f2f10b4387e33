"""A batch as microbatches, one after the other: the same update in less memory."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tardis_core.models.base import State, map_state
from tardis_core.tasks.base import Batch
from tardis_core.training.objective import Objective


class Microbatch(NamedTuple):
    """Some of the sequences of a batch."""

    batch: Batch
    state: State | None
    share: float  # of the scored steps; the loss is a mean over them


def split(batch: Batch, state: State | None, parts: int) -> list[Microbatch]:
    """The sequences of a batch in microbatches of nearly equal size, at most one per sequence."""
    if parts == 1:
        return [Microbatch(batch, state, 1.0)]
    numbers = torch.arange(batch.scored_TB.shape[1], device=batch.scored_TB.device)
    scored = float(batch.scored_TB.sum())
    microbatches = []
    for chosen in numbers.chunk(parts):
        here = slice(int(chosen[0]), int(chosen[-1]) + 1)
        some = batch.sequences(here)
        own = None if state is None else map_state(lambda tensor, here=here: tensor[here], state)
        microbatches.append(Microbatch(some, own, float(some.scored_TB.sum()) / scored))
    return microbatches


class Whole(NamedTuple):
    """The result of all microbatches together."""

    loss: float
    task_loss: float
    metrics: dict[str, float]
    state: State | None  # with which the next batch starts


def join(done: Sequence[tuple[Microbatch, Objective]], continues: bool) -> Whole:
    """The metrics of the whole batch, and its state if the sequences continue."""

    def mean(values: Sequence[Tensor]) -> float:
        pairs = zip(done, values, strict=True)
        return sum(part.share * float(value.detach()) for (part, _), value in pairs)

    objectives = [each for _, each in done]
    return Whole(
        mean([each.loss for each in objectives]),
        mean([each.task_loss for each in objectives]),
        {name: mean([each.metrics[name] for each in objectives]) for name in objectives[0].metrics},
        _side_by_side([each.state for each in objectives]) if continues else None,
    )


def _side_by_side(states: Sequence[State]) -> State:
    detached = [map_state(torch.Tensor.detach, each) for each in states]
    if len(detached) == 1:
        return detached[0]
    return map_state(lambda *parts: torch.cat(parts), *detached)
