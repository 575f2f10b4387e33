"""Tables of a comparison: results, differences with their significance, time to a solution."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from orchestrator.comparison.runs import ComparisonData, Group, Run
from orchestrator.comparison.stats import (
    expected_best,
    holm,
    interquartile_mean,
    least_p,
    mean_interval,
    permutation_test,
    probability_of_improvement,
    seeds_needed,
    share_interval,
)
from tardis_core import paper
from tardis_core.text import counted

POINTS = 60  # of a curve by seconds of training
SIGNIFICANCE = 0.05  # of all differences of a comparison together


def by_seed(comparison: ComparisonData) -> pd.DataFrame:
    """Result of each run: one row per seed, one column per group."""
    rows = [
        {"group": group.label, "seed": run.config.seed, "value": run.value(comparison.split)}
        for group in comparison.groups
        for run in group.runs
    ]
    table = pd.DataFrame(rows).pivot_table(index="seed", columns="group", values="value")
    return table.reindex(columns=[group.label for group in comparison.groups])


def summary(comparison: ComparisonData) -> pd.DataFrame:
    """One row per group, best mean first.

    With real data the paper's number is shown as well; its sizes and budgets are those of scale
    `paper` at best.
    """
    lower = comparison.metric.better == "lower"
    rows = [_summary_row(comparison, group) for group in comparison.groups]
    table = pd.DataFrame(rows).sort_values("mean", ascending=lower, ignore_index=True)
    return table if table["failed"].any() else table.drop(columns="failed")


def _summary_row(comparison: ComparisonData, group: Group) -> dict[str, Any]:
    values = np.array([run.value(comparison.split) for run in group.runs])
    low, high = mean_interval(values)
    row = {
        "candidate": group.label,
        "runs": len(values),
        "failed": group.failed,
        "mean": values.mean(),
        "deviation": values.std(ddof=1) if len(values) > 1 else np.nan,
        "low": low,
        "high": high,
        "iqm": interquartile_mean(values),
        "best": _best_validated(comparison, group),
    }
    if comparison.metric.solved is not None:
        row["solved"] = f"{sum(map(comparison.metric.solves, values))} of {len(values)}"
    if comparison.real:
        reported = paper.reported(comparison.task, group.label, group.config.task_settings)
        row["paper"] = "" if reported is None else str(reported)
    return row


def _best_validated(comparison: ComparisonData, group: Group) -> float:
    """The result of the run with the best validation: the best test would be a selection by it."""
    pick = min if comparison.metric.better == "lower" else max
    return pick(group.runs, key=lambda run: run.valid).value(comparison.split)


def differences(comparison: ComparisonData) -> pd.DataFrame:
    """Every two groups, compared on the seeds that both have: by how much is one better?

    The p values of the table are one family: `corrected` has them after Holm's correction.
    """
    table = by_seed(comparison)
    every = list(combinations(table.columns, 2))
    pairs = [_pair(table[list(labels)], comparison, len(every)) for labels in every]
    frame = pd.DataFrame([pair for pair in pairs if pair])
    if frame.empty:
        return frame
    frame["corrected"] = holm(frame["p"])
    attainable = holm(least_p(frame["pairs"]))
    frame["verdict"] = [
        verdict(row["low"], row["corrected"], row["pairs"], least, len(frame))
        for row, least in zip(frame.to_dict("records"), attainable, strict=True)
    ]
    frame.loc[frame["verdict"] == "yes", "needed"] = np.nan
    frame["needed"] = frame.pop("needed")  # as the last column
    order = {label: place for place, label in enumerate(summary(comparison)["candidate"])}
    ranks = frame[["better", "than"]].map(order.__getitem__)
    return frame.loc[ranks.sort_values(["better", "than"]).index].reset_index(drop=True)


def _pair(values: pd.DataFrame, comparison: ComparisonData, family: int) -> dict[str, Any] | None:
    """The difference of two groups, the better one first; None if they share no seed.

    Args:
        family: number of differences that are tested.
    """
    first, second = values.columns
    both = values.dropna()
    if both.empty:
        return None
    sign = 1 if comparison.metric.better == "lower" else -1
    gain = (sign * (both[second] - both[first])).to_numpy()
    if gain.mean() < 0:  # by the pairs: the mean over all seeds of each may say otherwise
        first, second, gain = second, first, -gain
    low, high = mean_interval(gain)
    return {
        "better": first,
        "than": second,
        "by": gain.mean(),
        "low": low,
        "high": high,
        "pairs": len(gain),
        "probability": _probability(values[first], values[second], comparison.metric.better),
        "p": permutation_test(gain),
        "needed": _seeds_needed(gain, family),
    }


def _probability(ours: pd.Series, theirs: pd.Series, better: str) -> float:
    """Of improvement; NaN if each has one run, which would make it 0 or 1."""
    ours, theirs = ours.dropna(), theirs.dropna()
    if len(ours) == len(theirs) == 1:
        return np.nan
    return probability_of_improvement(ours, theirs, better)


def _seeds_needed(gain: np.ndarray, family: int) -> float:
    """NaN if one pair says nothing about it, infinity if it takes more than can be trained."""
    return np.nan if len(gain) < 2 else seeds_needed(gain, family) or np.inf


def verdict(low: float, corrected: float, pairs: int, least: float, family: int) -> str:
    """Whether a difference is established: as strongly as the runs allow, and not more.

    Args:
        low: lower end of the interval of the difference.
        corrected: its p value after correction.
        least: the corrected p value that this number of pairs could give at best.
        family: number of differences that are tested.
    """
    if least > SIGNIFICANCE:
        needed = int(np.ceil(np.log2(2 * family / SIGNIFICANCE)))
        return f"undecided: {counted(pairs, 'pair')} cannot tell, {needed} could"
    return "yes" if corrected <= SIGNIFICANCE and low > 0 else "undecided"


def until_solved(comparison: ComparisonData) -> pd.DataFrame:
    """How soon each group solves the task: one row per group, the soonest first.

    By the first validation that counts as solved; the median over all runs, of which those that
    never solve it take forever. Empty if the task says nothing about being solved.
    """
    if comparison.metric.solved is None:
        return pd.DataFrame()
    rows = [_until_solved_row(comparison, group) for group in comparison.groups]
    table = pd.DataFrame(rows).sort_values(["updates", "share"], ascending=[True, False])
    return table.replace(np.inf, np.nan).reset_index(drop=True)


def _until_solved_row(comparison: ComparisonData, group: Group) -> dict[str, Any]:
    first = [_first_solved(comparison, run) for run in group.runs]
    solved = sum(np.isfinite(updates) for updates, _ in first)
    low, high = share_interval(solved, len(first))
    updates, seconds = np.median(first, axis=0)
    return {
        "candidate": group.label,
        "runs": len(first),
        "share": solved / len(first),
        "low": low,
        "high": high,
        "updates": updates,
        "sequences": updates * group.config.training.batch,
        "seconds": seconds,
    }


def solved_shares(comparison: ComparisonData) -> pd.DataFrame:
    """The share of the runs of each group that have solved the task, by updates."""
    curves = [run.curve for group in comparison.groups for run in group.runs]
    steps = np.unique(np.concatenate([curve["step"] for curve in curves]))
    shares = {}
    for group in comparison.groups:
        first = np.array([_first_solved(comparison, run)[0] for run in group.runs])
        shares[group.label] = (first[:, None] <= steps).mean(0)
    return pd.DataFrame(shares, index=pd.Index(steps, name="updates"))


def _first_solved(comparison: ComparisonData, run: Run) -> tuple[float, float]:
    """Updates and seconds of training until the first validation that counts as solved."""
    curve = run.curve.dropna(subset="value").sort_values("step")
    solved = curve[curve["value"].map(comparison.metric.solves)]
    if solved.empty:
        return np.inf, np.inf
    return float(solved["step"].iloc[0]), float(pd.to_numeric(solved["seconds"]).iloc[0])


def best_of(comparison: ComparisonData) -> pd.DataFrame:
    """The expected best validation of n trials of each search: one row per n."""
    curves = {
        group.label: expected_best([run.valid for run in group.runs], comparison.metric.better)
        for group in comparison.groups
        if group.searched
    }
    table = pd.DataFrame({label: pd.Series(curve) for label, curve in curves.items()})
    table.index = pd.RangeIndex(1, len(table) + 1, name="trials")
    return table


def failures(comparison: ComparisonData) -> str:
    """A sentence about the seeds without a result; empty if there are none."""
    parts = [
        f"{group.label} {group.failed} of {group.failed + len(group.runs)}"
        for group in comparison.groups
        if group.failed
    ]
    if not parts:
        return ""
    return f"Failed runs are not in the means: {', '.join(parts)}."


def aligned_curves(group: Group, along: str) -> tuple[np.ndarray, np.ndarray]:
    """The curves of a group at common places, between the last start and the first end."""
    curves = [run.curve.sort_values(along) for run in group.runs]
    start = max(curve[along].iloc[0] for curve in curves)
    stop = min(curve[along].iloc[-1] for curve in curves)
    places = np.linspace(start, max(start, stop), POINTS)
    if along == "step":
        common = sorted(set.intersection(*(set(curve[along]) for curve in curves)))
        places = np.array(common, float) if common else places
    return places, np.array([np.interp(places, c[along], c["value"]) for c in curves])
