"""Limits that a trial must keep, known before it starts: `--constraint parameters<2e6`."""

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import optuna

from orchestrator.planning.configs import base_config, space_of, trial_config
from orchestrator.planning.plan import SearchPlan, SweepPlan
from orchestrator.planning.sizing import count_parameters
from search_spaces.engine.probe import PROBES, SEED, RecordingTrial, draw
from tardis_core.build import build_task
from tardis_core.config import Config
from tardis_core.errors import UserError, require
from tardis_core.tasks.base import Signature
from tardis_core.training.memory_need import least_bytes

# A configuration and the shapes of its task to a number.
Quantity = Callable[[Config, Signature], float]
QUANTITIES: dict[str, Quantity] = {
    "parameters": count_parameters,
    "memory_gb": lambda config, _: sum(least_bytes(config).values()) / 1e9,
}
RULE = re.compile(rf"\s*({'|'.join(QUANTITIES)})\s*<\s*(\S+)\s*")


class Constraint(NamedTuple):
    """A quantity that must be less than a number."""

    quantity: str
    limit: float

    @classmethod
    def read(cls, text: str) -> "Constraint":
        """The constraint that `parameters<2e6` says."""
        rule = RULE.fullmatch(text)
        message = (
            f"--constraint is a quantity below a number, such as parameters<2e6, not {text!r}; "
            f"quantities are: {', '.join(QUANTITIES)}"
        )
        require(rule is not None, message)
        assert rule is not None
        try:
            limit = float(rule[2])
        except ValueError:
            raise UserError(message) from None
        require(0 < limit < math.inf, message)
        return cls(rule[1], limit)

    def __str__(self) -> str:
        return f"{self.quantity}<{self.limit:g}"


@dataclass(frozen=True)
class Limits:
    """The constraints of a search, for settings as its space returns them."""

    constraints: tuple[Constraint, ...]
    task: str
    scale: str
    seed: int
    signature: Signature
    seeds: int  # trained side by side, each with a memory of its own

    def violation(self, settings: dict[str, Any]) -> str:
        """The first constraint that the settings violate, in words; empty if there is none."""
        try:
            config = trial_config(self.task, self.scale, self.seed, settings)
        except UserError:
            return ""  # such a trial fails with its reason
        for each in self.constraints:
            value = self._measured(each.quantity, config)
            if value >= each.limit:
                return f"{each.quantity} is {value:g}, not below {each.limit:g}"
        return ""

    def _measured(self, quantity: str, config: Config) -> float:
        value = QUANTITIES[quantity](config, self.signature)
        return value * self.seeds if quantity == "memory_gb" else value


def limits_of(plan: SweepPlan, data: Any) -> Limits | None:
    """The limits of a search; None if it has none."""
    if not isinstance(plan, SearchPlan) or not plan.constraints:
        return None
    signature = build_task(base_config(plan), data).signature
    constraints = tuple(map(Constraint.read, plan.constraints))
    return Limits(constraints, plan.task, plan.scale, plan.seed, signature, plan.protocol.seeds)


def check_satisfiable(plan: SweepPlan, data: Any) -> None:
    """Raise `UserError` if no random point of the space keeps the constraints."""
    limits = limits_of(plan, data)
    if limits is None:
        return
    assert isinstance(plan, SearchPlan)
    space, rng, last = space_of(plan), random.Random(SEED), ""
    for number in range(PROBES):
        trial = RecordingTrial(lambda _, distribution: draw(distribution, rng), number)
        last = limits.violation(space(cast(optuna.Trial, trial)))
        if not last:
            return
    raise UserError(
        f"none of {PROBES} random points of the space keeps the constraints "
        f"{', '.join(map(str, limits.constraints))}: of the last one, {last}; raise the limit, or "
        "lower sizes with --set"
    )
