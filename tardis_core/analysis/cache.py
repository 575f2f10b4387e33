"""The continuous cache: a language model whose recent past is looked up at evaluation.

Grave, Joulin, Usunier 2016, "Improving Neural Language Models with a Continuous Cache" (arXiv
1612.04426), Eqs. (2) and (3). The last N hidden states h_i are kept, each with the symbol x_{i+1}
that followed it. Nothing is trained:

    p_cache(w | past) ~ sum_i [w = x_{i+1}] exp(theta h_t . h_i)
    p(w | past)       = (1 - lambda) p_model(w | past) + lambda p_cache(w | past)

While the cache is empty the model speaks alone.

Letters: T steps, B streams side by side, H hidden, N states that are kept, P = N + T.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tardis_core.errors import UserError, require
from tardis_core.models.network import Network
from tardis_core.tasks.base import Batch, Split, Task
from tardis_core.tasks.ptb import Ptb, bits

# Models of characters, whose states are small, need values far above 1 (docs/baselines.md).
THETAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
LAMBDAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)


@dataclass(frozen=True)
class Cache:
    """The settings; theta and lambda are tuned on validation where they are None."""

    size: int
    theta: float | None = None
    weight: float | None = None  # lambda

    def __post_init__(self) -> None:
        require(self.size >= 1, f"--cache must be at least 1, not {self.size}")
        theta = 0.0 if self.theta is None else self.theta
        require(0 <= theta < math.inf, f"--theta must be a number of at least 0, not {theta}")
        weight = 0.0 if self.weight is None else self.weight
        require(0 <= weight < 1, f"--lambda must be at least 0 and below 1, not {weight}")


class Kept(NamedTuple):
    """The cache of every stream: hidden states and the symbols that followed, the newest last."""

    h_BNH: Tensor
    followed_BN: Tensor  # int64


class Probabilities(NamedTuple):
    """Of the true symbols: by the model, and by the cache for each theta."""

    model_S: Tensor
    cache_by_theta: dict[float, Tensor]

    def nats(self, theta: float, weight: float) -> float:
        """-ln p, summed over all symbols."""
        mixed_S = (1 - weight) * self.model_S + weight * self.cache_by_theta[theta]
        return -float(mixed_S.log().sum())


def cached_bpc(network: Network, task: Task, split: Split, cache: Cache) -> tuple[float, Cache]:
    """Bits per character with a cache, and its settings with what validation chose."""
    if not isinstance(task, Ptb):
        raise UserError("--cache is for language models: runs of ptb, not of another task")
    if cache.theta is None or cache.weight is None:
        cache = _tune(network, task, cache)
    assert cache.theta is not None
    assert cache.weight is not None
    batches = task.evaluation_batches(split)
    measured = probabilities(network, batches, cache.size, [cache.theta])
    return bits(measured.nats(cache.theta, cache.weight), len(measured.model_S)), cache


def _tune(network: Network, task: Ptb, cache: Cache) -> Cache:
    """The settings with the lowest cost on validation."""
    thetas = THETAS if cache.theta is None else (cache.theta,)
    weights = LAMBDAS if cache.weight is None else (cache.weight,)
    measured = probabilities(network, task.evaluation_batches("valid"), cache.size, thetas)
    best = min(itertools.product(thetas, weights), key=lambda pair: measured.nats(*pair))
    return Cache(cache.size, *best)


@torch.no_grad()
def probabilities(
    network: Network, batches: Iterable[Batch], size: int, thetas: Sequence[float]
) -> Probabilities:
    """Run the network over batches, with its state and the cache carried where they say so."""
    device = next(network.parameters()).device
    state, kept = None, None
    model: list[Tensor] = []
    cached: dict[float, list[Tensor]] = {theta: [] for theta in thetas}
    for batch in batches:
        batch = batch.to(device)
        if not batch.continues:
            state, kept = None, None
        prediction, state = network(batch.inputs, state, batch.mask_TB)
        p_TBV = prediction.logits_TBO.softmax(-1)
        model_TB = p_TBV.gather(2, batch.targets.unsqueeze(2)).squeeze(2).double()
        extended = _extend(kept, prediction.hidden.h_TBH, batch.targets)
        for theta in thetas:
            p_TB = look_up(extended, len(batch.targets), size, theta, model_TB)
            cached[theta].append(p_TB[batch.scored_TB])
        model.append(model_TB[batch.scored_TB])
        kept = Kept(*(part[:, -size:] for part in extended))
    return Probabilities(torch.cat(model), {theta: torch.cat(p) for theta, p in cached.items()})


def _extend(kept: Kept | None, h_TBH: Tensor, targets_TB: Tensor) -> Kept:
    """The cache and all steps of a batch after it."""
    new = Kept(h_TBH.transpose(0, 1), targets_TB.T)
    if kept is None:
        return new
    return Kept(*(torch.cat(parts, dim=1) for parts in zip(kept, new, strict=True)))


def look_up(extended: Kept, steps: int, size: int, theta: float, without_TB: Tensor) -> Tensor:
    """p_cache of the true symbol at each of the last steps; `without_TB` while there is no past.

    Returns:
        p_TB
    """
    h_BPH, followed_BP = extended
    now_BTH, targets_BT = h_BPH[:, -steps:], followed_BP[:, -steps:]
    scores_BTP = theta * torch.bmm(now_BTH, h_BPH.transpose(1, 2)).double()
    places_P = torch.arange(h_BPH.shape[1], device=h_BPH.device)
    here_T1 = places_P[-steps:].unsqueeze(1)
    past_TP = (places_P < here_T1) & (places_P >= here_T1 - size)
    weights_BTP = scores_BTP.masked_fill(~past_TP, -torch.inf).softmax(-1)
    same_BTP = targets_BT.unsqueeze(2) == followed_BP.unsqueeze(1)
    p_BT = torch.where(same_BTP, weights_BTP, 0.0).sum(-1)
    return torch.where(past_TP.any(1).unsqueeze(1), p_BT.T, without_TB)
