"""Longer trials: the number of updates of a search that is extended."""

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.planning.configs import space_of
from orchestrator.planning.plan import SearchPlan
from search_spaces.engine.probe import explore
from tardis_core.config import make_config
from tardis_core.errors import UserError, require
from tardis_core.training.schedule import FOLLOW_LENGTH, TrainingConfig

UPDATES = "training.updates"


def with_updates(plan: SearchPlan, asked: str) -> SearchPlan:
    """The plan of a search whose trials get `asked` updates, such as "x2" or "20000"."""
    require(not plan.race, f"--updates cannot extend {plan.name}: its seeds race")
    _check_space(plan)
    has = training_of(plan.task, plan.scale, plan.fixed).updates
    updates = _updates(asked, has)
    require(
        updates > has,
        f"--updates must be more than the {has} that the trials of {plan.name} have, not {updates}",
    )
    longer = {**plan.fixed, UPDATES: str(updates)}
    return plan.with_updates(updates, validations(training_of(plan.task, plan.scale, longer)))


def _updates(asked: str, has: int) -> int:
    number = re.fullmatch(r"(x?)(\d{1,9})(\.\d+)?", asked)
    if not number or (number[3] and not number[1]):
        raise UserError(f"--updates must be a number or a factor such as x2, not {asked[:100]!r}")
    return round(has * float(asked[1:])) if number[1] else int(asked)


def _check_space(plan: SearchPlan) -> None:
    """Raise `UserError` if the space decides how long a trial is."""
    probes = explore(space_of(plan).inner, plan.scale, plan.estimators, plan.models)
    if UPDATES not in plan.fixed and any(UPDATES in probe.settings for probe in probes):
        raise UserError(f"--updates cannot extend {plan.name}: its space sets {UPDATES} itself")


def training_of(task: str, scale: str, fixed: Mapping[str, Any]) -> TrainingConfig:
    """The training that all trials of a sweep share, as far as --set says."""
    overrides = {key: value for key, value in fixed.items() if key.startswith("training.")}
    return make_config(task, scale=scale, overrides=overrides).training


def validations(training: TrainingConfig) -> int:
    """How often a trial that runs to its end is validated."""
    return -(-training.updates // training.evaluate_every)


def in_words(plan: SearchPlan) -> str:
    """What becomes of the trials of a search that was made longer, in one sentence."""
    return (
        f"complete trials train on from their checkpoints to {plan.fixed[UPDATES]} updates; "
        f"{FOLLOW_LENGTH}"
    )
