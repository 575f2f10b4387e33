"""The best few trials of a search trained again with other seeds: good settings, or luck?"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from orchestrator.planning.plan import (
    Candidate,
    ComparisonPlan,
    SearchPlan,
    SweepPlan,
    exists,
    load_plan,
    new_id,
)

BEST_FEW = 3


def name_of(plan: SearchPlan) -> str:
    """The name of the confirmation of a search; one that was extended has several."""
    return f"{plan.name}-seeds{plan.part or ''}"


def begun(plan: SearchPlan) -> ComparisonPlan | None:
    """The confirmation of a search if it has been started before."""
    if not exists(name_of(plan)):
        return None
    confirmation = load_plan(name_of(plan))
    assert isinstance(confirmation, ComparisonPlan)
    return confirmation


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
            "time_budget": 0.0,
            "sweep_id": new_id(),
        },
        candidates=tuple(Candidate(f"trial {n}", settings) for n, settings in best.items()),
        seeds=seeds,
        confirms=plan.name,
    )
