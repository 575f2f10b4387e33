"""The candidates of a comparison beside each other: over seeds, with how sure one can be."""

import pandas as pd

from orchestrator import results
from orchestrator.plan import SweepPlan
from orchestrator.statistics import bootstrap_interval


def by_seed(plan: SweepPlan) -> pd.DataFrame:
    """The best validation of each trial that ran to its end: a row a seed, a column a candidate."""
    rows = [
        {
            "candidate": plan.candidate_of(record.number).label,
            "seed": int(record.params["seed"]),
            "value": best[f"valid_{plan.metric}"],
        }
        for record in results.read(plan).values()
        if record.state == "complete" and (best := record.best_row(plan.metric, plan.better))
    ]
    labels = [candidate.label for candidate in plan.candidates]
    frame = pd.DataFrame(rows, columns=["candidate", "seed", "value"])
    return frame.pivot_table(index="seed", columns="candidate", values="value").reindex(
        columns=labels
    )


def summary(plan: SweepPlan) -> pd.DataFrame:
    """A row a candidate, the best mean first."""
    values = by_seed(plan)
    rows = []
    for label in values.columns:
        measured = values[label].dropna()
        low, high = bootstrap_interval(measured)
        rows.append(
            {
                "candidate": label,
                "seeds": len(measured),
                "mean": measured.mean(),
                "deviation": measured.std(),
                "low": low,
                "high": high,
                "best": measured.min() if plan.better == "lower" else measured.max(),
            }
        )
    frame = pd.DataFrame(rows)
    return frame.sort_values("mean", ascending=plan.better == "lower", ignore_index=True)


def winner(plan: SweepPlan) -> int | None:
    """The best run of the candidate with the best mean."""
    table = summary(plan)
    if not table["seeds"].any():
        return None
    label = table["candidate"][0]
    pick = min if plan.better == "lower" else max
    runs = {
        record.number: best[f"valid_{plan.metric}"]
        for record in results.read(plan).values()
        if record.state == "complete"
        and plan.candidate_of(record.number).label == label
        and (best := record.best_row(plan.metric, plan.better))
    }
    return pick(runs, key=lambda number: runs[number])
