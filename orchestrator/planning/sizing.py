"""Candidates of equal size: hidden sizes that give all of them about the same parameters."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from orchestrator.planning import sweep_data
from orchestrator.planning.configs import base_config, trial_config
from orchestrator.planning.plan import Candidate, ComparisonPlan
from tardis_core.build import build_network, build_task
from tardis_core.config import Config
from tardis_core.errors import UserError
from tardis_core.tasks.base import Signature

HIDDEN = "model.hidden"
SMALLEST = 8
TOLERANCE = 0.1  # a candidate that misses the number of parameters by more is refused


def with_parameters(plan: ComparisonPlan, parameters: int) -> ComparisonPlan:
    """The plan with every candidate at about this number of parameters.

    A candidate whose hidden size is given keeps it.
    """
    signature = build_task(base_config(plan), sweep_data.load(plan).values).signature
    candidates = [_sized(each, plan, signature, parameters) for each in plan.candidates]
    return replace(plan, candidates=tuple(candidates))


def count_parameters(config: Config, signature: Signature) -> int:
    """The number of parameters of a network."""
    try:
        with torch.device("meta"):  # shapes without numbers: initialising a large one takes seconds
            network = build_network(config, signature)
    except RuntimeError:  # a model that computes with its numbers when it is made
        network = build_network(config, signature)
    return sum(each.numel() for each in network.parameters())


def _sized(
    candidate: Candidate, plan: ComparisonPlan, signature: Signature, parameters: int
) -> Candidate:
    if HIDDEN in candidate.settings:
        return candidate

    def settings(hidden: int) -> dict[str, Any]:
        return {**candidate.settings, HIDDEN: hidden}

    def count(hidden: int) -> int:
        config = trial_config(plan.task, plan.scale, plan.seed, settings(hidden))
        return count_parameters(config, signature)

    hidden = hidden_size(count, parameters)
    if abs(count(hidden) - parameters) > TOLERANCE * parameters:
        raise UserError(
            f"--parameters must be near a size that {candidate.label} can have, such as "
            f"{count(hidden)} with {HIDDEN}={hidden}, not {parameters}"
        )
    return replace(candidate, settings=settings(hidden))


def hidden_size(count: Callable[[int], int], parameters: int) -> int:
    """The hidden size whose number of parameters is nearest; `count` must grow with it."""
    low, high = SMALLEST, 4 * SMALLEST
    while count(high) < parameters:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < parameters else (low, middle)
    return min((low, high), key=lambda hidden: abs(count(hidden) - parameters))
