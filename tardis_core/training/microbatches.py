"""A batch as microbatches, one after the other: less memory.

The loss of each is weighted by its share of the scored steps, so the gradient of the task's loss is
that of the whole batch. What is computed over a batch is then computed over a microbatch: noise is
drawn for each, and score functions take their mean per step, their baselines and the steps of their
running averages from each.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tardis_core.config import Config
from tardis_core.errors import require
from tardis_core.models.base import State, map_state
from tardis_core.tasks.base import Batch
from tardis_core.training.objective import Objective


class Microbatch(NamedTuple):
    """Some of the sequences of a batch."""

    batch: Batch
    state: State | None
    share: float  # of the scored steps; the loss is a mean over them


def check_microbatches(config: Config) -> None:
    """Raise `UserError` if a sequence would be compared with the others of a microbatch of one."""
    batch, parts = config.training.batch, config.training.accumulate
    size = -(-batch // parts)  # of all but the last, as `chunk` makes them
    require(
        parts == 1
        or (size > 1 and batch % size != 1)
        or config.settings().get("estimator.baseline") != "batch",
        f"training.accumulate={parts} leaves a sequence of training.batch={batch} alone in its "
        "microbatch, where estimator.baseline=batch has no others to compare it with; choose "
        "fewer microbatches or estimator.baseline=running",
    )


def split(batch: Batch, state: State | None, parts: int) -> list[Microbatch]:
    """The sequences of a batch in microbatches of nearly equal size, at most one per sequence."""
    if parts == 1:
        return [Microbatch(batch, state, 1.0)]
    numbers = torch.arange(batch.scored_TB.shape[1], device=batch.scored_TB.device)
    scored = max(1.0, float(batch.scored_TB.sum()))
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
