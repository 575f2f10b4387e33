"""The best few of a search once more with other seeds: was it the setting, or was it luck?"""

from dataclasses import replace

from orchestrator.planning.plan import PLAN_FILE, Candidate, SweepPlan, folder_of, load_plan, new_id
from orchestrator.results.records import Records

BEST_FEW = 3


def name_of(plan: SweepPlan) -> str:
    """The name of the comparison that follows the search; a search that was extended has more."""
    return f"{plan.name}-seeds{plan.part or ''}"


def plan_of(plan: SweepPlan) -> SweepPlan | None:
    """The comparison of the best few: the one that was begun, or a new one; None without any."""
    name = name_of(plan)
    if (folder_of(name) / PLAN_FILE).exists():
        return load_plan(name)
    records = Records.load(plan)
    trials, best = records.trials, records.best(BEST_FEW)
    if not best:
        return None
    first = plan.seed + plan.seeds_per_trial  # the search has not seen it
    seeds = tuple(range(first, first + plan.replicates))
    return replace(
        plan,
        name=name,
        candidates=tuple(Candidate(f"trial {n}", trials[n].settings()) for n in best),
        seeds=seeds,
        trials=len(best) * len(seeds),
        space=None,
        seeds_per_trial=1,
        replicates=0,
        replicates_of=plan.name,
        time_budget=0.0,
        part=0,
        sweep_id=new_id(),
    )
