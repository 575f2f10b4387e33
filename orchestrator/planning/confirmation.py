"""The best few trials of a search trained again with other seeds: good settings, or luck?"""

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from orchestrator.planning import lengthening
from orchestrator.planning.configs import trial_config
from orchestrator.planning.plan import (
    Candidate,
    ComparisonPlan,
    SearchPlan,
    SweepPlan,
    check_name,
    exists,
    folder_of,
    load_plan,
    names_here,
    new_id,
)
from tardis_core.errors import UserError

BEST_FEW = 3


def name_of(plan: SearchPlan) -> str:
    """The name of the confirmation of a search; one that was extended has several."""
    return f"{plan.name}-seeds{plan.part or ''}"


def check_names_free(search: str) -> None:
    """Raise `UserError` if another sweep has a name that a confirmation of a new search gets."""
    check_name(f"{search}-seeds")
    for name in names_here():
        if re.fullmatch(rf"{re.escape(search)}-seeds\d*", name):
            raise UserError(
                f"there is a sweep {name!r} already, which is the name of a confirmation of "
                f"{search!r}; choose another --name"
            )


def begun(plan: SearchPlan) -> ComparisonPlan | None:
    """The confirmation of a search if it has been started before, with today's options."""
    name = name_of(plan)
    if not exists(name):
        return None
    confirmation = load_plan(name)
    if not isinstance(confirmation, ComparisonPlan) or confirmation.confirms != plan.name:
        raise UserError(
            f"the confirmation of {plan.name} is called {name}, and {folder_of(name)} has another "
            f"sweep; move that folder away and continue with --resume {plan.name}"
        )
    return replace(
        confirmation,
        data_dir=plan.data_dir or confirmation.data_dir,
        concurrency=plan.concurrency or confirmation.concurrency,
    )


def new(plan: SearchPlan, best: Mapping[int, dict[str, Any]]) -> ComparisonPlan:
    """The comparison of the best trials of a search.

    Args:
        best: the settings of these trials by their numbers, the best first.
    """
    first = plan.seed + plan.seeds_per_trial  # the search has not used it
    seeds = tuple(range(first, first + plan.confirm_seeds))
    common = {each.name: getattr(plan, each.name) for each in fields(SweepPlan)}
    return ComparisonPlan(
        **{
            **common,
            "name": name_of(plan),
            "trials": len(best) * len(seeds),
            "reports": plan.reports_of_first_seed,
            "time_budget": 0.0,
            "sweep_id": new_id(),
        },
        candidates=tuple(_candidate(plan, *trial) for trial in best.items()),
        seeds=seeds,
        confirms=plan.name,
    )


def _candidate(plan: SearchPlan, number: int, settings: dict[str, Any]) -> Candidate:
    training = trial_config(plan.task, plan.scale, plan.seed, settings).training
    return Candidate(f"trial {number}", settings, lengthening.validations(training))
