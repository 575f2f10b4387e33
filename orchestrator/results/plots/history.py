"""The best validation of each trial in the order of the trials, and the best so far."""

from orchestrator.page.page import Plot, rounded
from orchestrator.results.records import Records


def history(records: Records) -> Plot | None:
    """One point per trial, pruned and failed ones included; None without a validated trial."""
    plan, numbers = records.plan, sorted(records.trials)
    values = rounded([records.objective(number) for number in numbers])
    if all(value is None for value in values):
        return None
    points = [
        (number, value, str(records.trials[number].state))
        for number, value in zip(numbers, values, strict=True)
    ]
    labels = {"xLabel": "trial", "yLabel": f"best validation {plan.metric}"}
    return Plot("points", "History", {**labels, "better": plan.better, "points": points})
