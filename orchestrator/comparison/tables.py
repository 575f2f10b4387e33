"""Groups of runs beside each other, with how sure one can be of what differs."""

from itertools import combinations

import numpy as np
import pandas as pd

from orchestrator.comparison.runs import ComparisonData
from orchestrator.comparison.stats import bootstrap_interval, expected_best, permutation_test
from tardis_core import paper

SURE = 0.05  # the chance of a mistake up to which a difference is called one


def by_seed(evidence: ComparisonData) -> pd.DataFrame:
    """What every run came to: a row a seed, a column a group."""
    rows = [
        {"group": group.label, "seed": run.config.seed, "value": run.value(evidence.split)}
        for group in evidence.groups
        for run in group.runs
    ]
    table = pd.DataFrame(rows).pivot_table(index="seed", columns="group", values="value")
    return table.reindex(columns=[group.label for group in evidence.groups])


def summary(evidence: ComparisonData) -> pd.DataFrame:
    """A row a group, the best mean first.

    Where the data is real, the paper's figure stands beside; its sizes and budgets are those of
    scale `paper` at best.
    """
    lower = evidence.metric.better == "lower"
    rows = []
    for group in evidence.groups:
        values = np.array([run.value(evidence.split) for run in group.runs])
        low, high = bootstrap_interval(values)
        row = {
            "system": group.label,
            "runs": len(values),
            "mean": values.mean(),
            "deviation": values.std(ddof=1) if len(values) > 1 else np.nan,
            "low": low,
            "high": high,
            "best": values.min() if lower else values.max(),
        }
        if evidence.task in ("copy", "recall"):
            row["solved"] = f"{int((values < paper.SUCCESS).sum())} of {len(values)}"
        if evidence.real:
            told = paper.reported(evidence.task, group.label, group.config.task_settings)
            row["paper"] = "" if told is None else str(told)
        rows.append(row)
    return pd.DataFrame(rows).sort_values("mean", ascending=lower, ignore_index=True)


def differences(evidence: ComparisonData) -> pd.DataFrame:
    """Every two groups, paired by seed: does the first beat the second?"""
    table = by_seed(evidence)
    sign = 1 if evidence.metric.better == "lower" else -1
    order = [label for label in summary(evidence)["system"] if label in table.columns]
    rows = []
    for first, second in combinations(order, 2):
        gain = (sign * (table[second] - table[first])).dropna().to_numpy()
        if not len(gain):
            continue
        low, high = bootstrap_interval(gain)
        chance = permutation_test(gain)
        rows.append(
            {
                "better": first,
                "than": second,
                "by": gain.mean(),
                "low": low,
                "high": high,
                "p": chance,
                "pairs": len(gain),
                "verdict": verdict(low, high, chance, len(gain)),
            }
        )
    return pd.DataFrame(rows)


def verdict(low: float, high: float, chance: float, pairs: int) -> str:
    """As strongly as the runs allow, and not more."""
    if 2 / 2**pairs > SURE:
        least = int(np.ceil(np.log2(2 / SURE)))
        return f"undecided: {pairs} pairs cannot tell, {least} could"
    return "yes" if chance <= SURE and (low > 0 or high < 0) else "undecided"


def best_of(evidence: ComparisonData) -> pd.DataFrame:
    """The expected best validation of n trials of each search: a row an n, a column a group."""
    curves = {
        group.label: expected_best([run.valid for run in group.runs], evidence.metric.better)
        for group in evidence.groups
        if group.searched
    }
    made = pd.DataFrame({label: pd.Series(curve) for label, curve in curves.items()})
    made.index = pd.RangeIndex(1, len(made) + 1, name="trials")
    return made
