"""The loss of one batch: the task's own, the estimator's, and the memory-only head's."""

from typing import NamedTuple

import torch
from torch import Tensor

from tardis_core.estimators.base import Episode, Estimator
from tardis_core.models.base import Hidden, State
from tardis_core.models.network import Network, Prediction
from tardis_core.tasks.base import Batch, Signature
from tardis_core.training.counterfactual import try_cells


class Objective(NamedTuple):
    """The result of one batch."""

    loss: Tensor  # to be minimised
    task_loss: Tensor  # Eq. (12), in nats
    metrics: dict[str, Tensor]  # worth watching
    state: State
    hidden: Hidden


def objective(
    network: Network,
    signature: Signature,
    batch: Batch,
    state: State | None,
    generator: torch.Generator | None,
    progress: float,
) -> Objective:
    """Run the network over a batch with noise, and add up what there is to learn from it."""
    estimator = getattr(network.model, "estimator", None)
    if isinstance(estimator, Estimator):
        batch = batch.copied(estimator.copies)
    before = state
    prediction, state = network(batch.inputs, before, batch.mask_TB, generator, batch.scored_TB)
    ll_TB = signature.log_likelihood(prediction.logits_TBO, batch)
    task_loss = signature.loss(ll_TB, batch)
    loss, metrics = task_loss, {}

    memory_ll_TB = None
    if prediction.memory_logits_TBO is not None:
        memory_ll_TB = signature.log_likelihood(prediction.memory_logits_TBO, batch)
        memory_loss = signature.loss(memory_ll_TB, batch)
        loss = loss + memory_loss
        metrics["memory_loss"] = memory_loss.detach()

    mask_TB = torch.ones_like(ll_TB) if batch.mask_TB is None else batch.mask_TB.to(ll_TB.dtype)
    if isinstance(estimator, Estimator):
        episode = _episode(prediction, mask_TB, ll_TB, memory_ll_TB, progress)
        if estimator.window:
            assert generator is not None, "cells are tried with the noise of training"
            tried = try_cells(network, signature, batch, before, prediction, estimator, generator)
            episode = episode._replace(tried=tried)
        extra, more = estimator.loss(episode)
        metrics |= more
        if extra is not None and not prediction.hidden.reads.soft:  # else its gradient is exact
            loss = loss + extra
    if prediction.hidden.reset_TB2 is not None:
        open_2 = (prediction.hidden.reset_TB2.detach() * mask_TB.unsqueeze(-1)).sum((0, 1))
        alpha, beta = open_2 / mask_TB.sum()
        metrics |= {"alpha": alpha, "beta": beta}
    return Objective(loss, task_loss, metrics, state, prediction.hidden)


def _episode(
    prediction: Prediction,
    mask_TB: Tensor,
    ll_TB: Tensor,
    memory_ll_TB: Tensor | None,
    progress: float,
) -> Episode:
    reads = prediction.hidden.reads
    assert reads is not None, "a model with an estimator reports its reads"
    return Episode(
        pi_TBK=reads.pi_TBK,
        read_TB=reads.read_TB,
        x_TBD=prediction.x_TBD.detach(),
        reward_TB=ll_TB.detach(),
        memory_reward_TB=None if memory_ll_TB is None else memory_ll_TB.detach(),
        mask_TB=mask_TB,
        progress=progress,
        write_pi_TBK=reads.write_pi_TBK,
        written_TB=reads.written_TB,
    )
