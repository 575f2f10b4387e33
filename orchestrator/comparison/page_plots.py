"""The plots on the page of a comparison; `plots` draws the same as files for slides and papers."""

from typing import Any

import numpy as np

from orchestrator.comparison import tables
from orchestrator.comparison.runs import ComparisonData
from orchestrator.page.page import Plot, rounded

ROW = 40  # pixels


def results(comparison: ComparisonData) -> Plot:
    """Each run, and the mean of each group with its interval."""
    values, metric = tables.by_seed(comparison), comparison.metric
    rows = [
        {
            "name": row.candidate,
            "mean": row.mean,
            **dict(zip(("low", "high"), rounded([row.low, row.high]), strict=True)),
            "dots": rounded(values[row.candidate].dropna()),
        }
        for row in tables.summary(comparison).itertuples()
    ]
    label = f"{comparison.split} {metric.name} ({metric.unit}, {metric.better} is better)"
    title = "Each run, the mean and its 95 % interval"
    spec = {"xLabel": label, "rows": rows, "best": True}
    return Plot("intervals", title, spec, 46 + ROW * len(rows))


def improvements(comparison: ComparisonData) -> Plot | None:
    """How likely a run of one group is better than one of another; None if nothing is known."""
    rows = [
        {
            "name": f"{row.better} over {row.than}",
            "mean": row.probability,
            "low": None,
            "high": None,
            "dots": [],
        }
        for row in tables.differences(comparison).itertuples()
        if row.probability == row.probability  # there is one
    ]
    if not rows:
        return None
    label = "probability that a run of the first is better"
    spec = {"xLabel": label, "rows": rows, "range": [0, 1], "middle": 0.5}
    return Plot("intervals", "Probability of improvement", spec, 46 + ROW * len(rows))


def curves(comparison: ComparisonData, along: str, label: str) -> Plot | None:
    """The mean curve of each group, with a band from the least to the greatest of its runs.

    Args:
        along: the column of the runs' curves to draw along: step or seconds.
        label: what that is, in words.
    """
    grids: list[list[float | None]] = []
    series: list[dict[str, Any]] = []
    for place, group in enumerate(comparison.groups):
        if group.searched or any(run.curve[along].isna().any() for run in group.runs):
            continue
        places, values = tables.aligned_curves(group, along)
        bands = {"y": values.mean(0), "low": values.min(0), "high": values.max(0)}
        lines = {name: rounded(each.tolist()) for name, each in bands.items()}
        series.append({"name": group.label, "grid": len(grids), "look": place, **lines})
        grids.append(rounded(places.tolist()))
    if not series:
        return None
    labels = {"xLabel": label, "yLabel": f"validation {comparison.metric.name}", "legend": True}
    spec = {**labels, "grids": grids, "series": series}
    return Plot("lines", f"Learning curves by {label}", spec)


def solved(comparison: ComparisonData) -> Plot:
    """The share of the runs of each group that have solved the task, by updates."""
    shares = tables.solved_shares(comparison)
    series = [
        {"name": label, "grid": 0, "look": place, "y": rounded(share)}
        for place, (label, share) in enumerate(shares.items())
    ]
    labels = {"xLabel": "updates", "yLabel": "share of the runs"}
    spec = {**labels, "legend": True, "grids": [shares.index.tolist()], "series": series}
    return Plot("lines", "Runs that have solved the task", spec)


def best_of(comparison: ComparisonData) -> Plot | None:
    """The expected best validation of n trials of each search; None without a search."""
    table = tables.best_of(comparison)
    if table.empty:
        return None
    series = [
        {"name": label, "grid": 0, "look": place, "y": rounded(column.dropna())}
        for place, (label, column) in enumerate(table.items())
    ]
    labels = {"xLabel": "trials", "yLabel": f"expected best {comparison.metric.name}"}
    grid = np.arange(1, len(table) + 1).tolist()
    spec = {**labels, "legend": True, "grids": [grid], "series": series}
    return Plot("lines", "Expected best of n trials", spec)
