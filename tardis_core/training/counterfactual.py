"""Counterfactual reads: cells are tried at one step, and the rest of the sequence is run.

Beside what happened there is then what would have happened, all else being equal: the steps before
are the same, and so is the noise of those after.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from tardis_core.estimators.base import Estimator, Tried
from tardis_core.models.base import State, map_state
from tardis_core.models.network import Network, Prediction, steps_asked
from tardis_core.tasks.base import Batch, Signature


@torch.no_grad()
def try_cells(
    network: Network,
    signature: Signature,
    batch: Batch,
    before: State | None,
    prediction: Prediction,
    estimator: Estimator,
    generator: torch.Generator,
) -> Tried:
    """Try the cells that the estimator wants, at one of the last steps of each sequence.

    Args:
        before: the state with which the batch began.
        prediction: for this batch, with its noise.
        estimator: says from how many steps to draw and which cells to try.
    """
    reads, model, noise = prediction.hidden.reads, network.model, prediction.noise
    assert model.reads_alone, "build_network refuses other models"
    assert reads is not None, "a model with an estimator reports its reads"
    T, B, _ = reads.pi_TBK.shape
    start = max(0, T - estimator.window)
    x_TBD, state = prediction.x_TBD, before
    if start:
        mask_TB = batch.steps(slice(start)).mask_TB
        _, state = model(x_TBD[:start], before, mask_TB, noise.map(lambda part: part[:start]))

    device = x_TBD.device
    step_B = torch.randint(start, T, (B,), generator=generator, device=device)
    pi_BK = reads.pi_TBK[step_B, torch.arange(B, device=device)]
    cell_BN = estimator.cells_to_try(pi_BK, generator)
    count = cell_BN.shape[1]

    def copied(part: Tensor) -> Tensor:
        """The last steps of a tensor, one copy per cell that is tried."""
        return part[start:].repeat_interleave(count, dim=1)

    step_N = (step_B - start).repeat_interleave(count)
    forced = noise.map(copied).reading(step_N, cell_BN.flatten())
    rest = batch.steps(slice(start, T)).copied(count)
    many = state and map_state(lambda part: part.repeat_interleave(count, dim=0), state)
    hidden, _ = model(copied(x_TBD), many, rest.mask_TB, forced)

    def reward(logits_WNO: Tensor) -> Tensor:
        return signature.log_likelihood(logits_WNO, rest).unflatten(1, (B, count))

    # The heads drop what they dropped: all else is equal, and the mean return is that of training.
    dropout = _dropout_at(prediction.dropout_NG, batch.scored_TB, copied, rest.scored_TB)
    main, memory = network.predict(hidden, copied(x_TBD), steps_asked(rest.scored_TB), dropout)
    return Tried(step_B, cell_BN, reward(main), None if memory is None else reward(memory))


def _dropout_at(
    dropout_NG: Tensor | None,
    scored_TB: Tensor,
    copied: Callable[[Tensor], Tensor],
    scored_WN: Tensor,
) -> Tensor | None:
    """The head's dropout of a batch at the scored steps of the copies of its last steps."""
    if dropout_NG is None:
        return None
    dropout_TBG = dropout_NG.new_zeros(*scored_TB.shape, dropout_NG.shape[-1])
    dropout_TBG[scored_TB] = dropout_NG
    return copied(dropout_TBG)[scored_WN]
