"""How good is the gradient of an estimator? Its bias, its noise and its cost, against the truth.

The truth is the gradient of the expected loss over all that reads may choose. For a short sequence
and few cells it is computed exactly, by every path of reads; otherwise it is the mean of many
estimates of an unbiased estimator.

Letters: R repeats, N parameters, others as in `models/tardis.py`.
"""

import itertools
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tardis_core.build import build_network
from tardis_core.config import Config, has_setting, make_config
from tardis_core.models.network import Network
from tardis_core.models.tardis import CERTAIN, Tardis, TardisNoise
from tardis_core.tasks.base import Batch, Signature
from tardis_core.training.adam import Adam
from tardis_core.training.objective import objective

ADDRESSING = "model.addressing."  # how the names of the parameters begin that choose cells
OWN = "model.estimator."  # and those that only one estimator has


class Problem(NamedTuple):
    """Weights and sequences: where gradients are measured."""

    config: Config  # of any estimator; its sizes count
    weights: Mapping[str, Tensor]  # a state dict
    batch: Batch
    signature: Signature


class Estimates(NamedTuple):
    """Independent estimates of one gradient."""

    gradient_RN: Tensor
    seconds: float  # of the processor, per estimate


class Quality(NamedTuple):
    """Relative to the length of the true gradient."""

    bias: float  # of the mean
    uncertainty: float  # of the bias: what is below it cannot be told from zero
    deviation: float  # of one estimate, the root of the variance
    cosine: float  # of one estimate with the truth, on average
    signal_per_second: float  # squared mean along the truth by variance, per processor second


def network_of(problem: Problem, estimator: str, settings: Mapping[str, Any]) -> Network:
    """The network with an estimator, so that a policy descends the expected loss and no other."""
    batch, signature = problem.batch, problem.signature
    T, B = batch.scored_TB.shape
    terms = int(batch.scored_TB.sum()) * (signature.outputs if signature.bits else 1)
    plain = {
        "estimator.gamma": 1.0,
        "estimator.auxiliary": False,
        "estimator.entropy": 0.0,
        "estimator.normalise_variance": False,
        "estimator.attached": True,
        "estimator.weight": T * B / terms,  # a policy's loss is a mean over steps, the task's not
        "estimator.window": T,
    }
    old = problem.config
    names = old.task, old.model, estimator
    sizes = {key: value for key, value in old.settings().items() if not key.startswith("estimator")}
    own = {key: value for key, value in plain.items() if has_setting(*names, key)}
    config = make_config(*names, old.scale, old.seed, sizes | own | dict(settings))
    network = build_network(config, signature)
    network.load_state_dict(problem.weights, strict=False)  # estimators differ in theirs
    return network


def shared_parameters(network: Network) -> dict[str, Tensor]:
    """Those that every estimator's network has."""
    return {
        name: value
        for name, value in network.named_parameters()
        if not name.startswith((OWN, "memory_head."))
    }


def gradient_of(loss: Tensor, network: Network) -> Tensor:
    """The gradient of the shared parameters, as one vector."""
    parameters = list(shared_parameters(network).values())
    parts = torch.autograd.grad(loss, parameters, allow_unused=True)
    zeros = (torch.zeros_like(each) for each in parameters)
    return torch.cat(
        [
            (zero if part is None else part).flatten()
            for part, zero in zip(parts, zeros, strict=True)
        ]
    )


def addressing_mask(network: Network) -> Tensor:
    """mask_N of the parameters of the addressing."""
    return torch.cat(
        [
            torch.full((value.numel(),), name.startswith(ADDRESSING))
            for name, value in shared_parameters(network).items()
        ]
    )


def paths(steps: int, cells: int) -> Tensor:
    """read_TP of all paths that never read a cell twice in a row; others have no probability."""
    every = itertools.product(range(cells), repeat=steps)
    kept = [path for path in every if all(a != b for a, b in itertools.pairwise(path))]
    return torch.tensor(kept).T


def expected_loss(network: Network, signature: Signature, batch: Batch) -> Tensor:
    """sum over the paths of reads of probability times loss, to be differentiated."""
    model = network.model
    assert isinstance(model, Tardis), "whose reads can be enumerated"
    assert model.estimator.attached, "or the gradient of the probabilities would be cut"
    T, B = batch.scored_TB.shape
    K = model.memory_config.cells
    read_TP = paths(T, K)
    wide, read_TN = batch.copied(read_TP.shape[1]), read_TP.repeat(1, B)
    x_TND = network.encoder(wide.inputs, network.head.W_o.weight.dtype)
    forced_TNK = CERTAIN * torch.nn.functional.one_hot(read_TN, K).to(x_TND.dtype)
    hidden, _ = model(x_TND, None, wide.mask_TB, TardisNoise(forced_TNK, None, None))
    assert hidden.reads is not None, "it reports its choices"
    log_p_TNK = torch.log_softmax(hidden.reads.pi_TBK, -1)
    p_N = log_p_TNK.gather(-1, read_TN.unsqueeze(-1)).squeeze(-1).sum(0).exp()
    logits_TNO, _ = network.predict(hidden, x_TND)
    ll_TN = signature.log_likelihood(logits_TNO, wide)
    terms = batch.scored_TB.sum() * (signature.outputs if signature.bits else 1)
    return -(p_N * ll_TN.sum(0)).sum() / terms


def estimate(network: Network, problem: Problem, generator: torch.Generator) -> Tensor:
    """One estimate of the gradient, with the noise of training."""
    result = objective(network, problem.signature, problem.batch, None, generator, 0.0)
    return gradient_of(result.loss, network)


def estimates(network: Network, problem: Problem, repeats: int, seed: int) -> Estimates:
    """Independent estimates, and what one takes."""
    generator = torch.Generator().manual_seed(seed)
    estimate(network, problem, generator)  # what is done once, such as loading, does not count
    started = time.process_time()
    gradient_RN = torch.stack([estimate(network, problem, generator) for _ in range(repeats)])
    return Estimates(gradient_RN, (time.process_time() - started) / repeats)


def quality(own: Estimates, truth_N: Tensor, truth_error: float = 0.0) -> Quality:
    """Judge estimates.

    Args:
        truth_error: squared error of the truth, where it is itself a mean of estimates.
    """
    gradient_RN, truth_N = own.gradient_RN.double(), truth_N.double()
    mean_N, length = gradient_RN.mean(0), float(truth_N.norm())
    variance = float(gradient_RN.var(0).sum())
    error = variance / len(gradient_RN) + truth_error
    # The mean of few estimates is off by chance, too: that part is taken away.
    squared_bias = max(0.0, float((mean_N - truth_N).square().sum()) - error)
    along = float(mean_N @ truth_N) / length
    return Quality(
        bias=squared_bias**0.5 / length,
        uncertainty=error**0.5 / length,
        deviation=variance**0.5 / length,
        cosine=float(torch.cosine_similarity(gradient_RN, truth_N.unsqueeze(0)).mean()),
        signal_per_second=along**2 / variance / own.seconds if variance > 0 else float("inf"),
    )


def descend(
    network: Network, signature: Signature, batches: Iterator[Batch], updates: int, rate: float
) -> Iterator[float]:
    """Train with the exact gradient, which favours no estimator; yields the expected losses."""
    optimizer = Adam(network.parameters(), rate)
    for batch in itertools.islice(batches, updates):
        optimizer.zero_grad()
        loss = expected_loss(network, signature, batch)
        loss.backward()
        optimizer.step()
        yield float(loss.detach())
