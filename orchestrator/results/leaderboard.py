"""The trials of a sweep as a table, the best first."""

import shutil

import pandas as pd

from orchestrator.planning.plan import SweepPlan
from orchestrator.results import records

ORDER = ("complete", "pruned", "stopped", "running", "failed")


def table(plan: SweepPlan) -> pd.DataFrame:
    """One row a trial: those that ran to their end first, each kind by its best validation."""
    frame = records.trials(plan)
    rank = frame["state"].map({state: place for place, state in enumerate(ORDER)})
    ascending = [True, plan.better == "lower"]
    ranked = frame.assign(_rank=rank).sort_values(["_rank", "objective"], ascending=ascending)
    return ranked.drop(columns="_rank").reset_index(drop=True)


def best(plan: SweepPlan, most: int) -> list[int]:
    """The numbers of the best trials that ran to their end."""
    frame = table(plan)
    complete = frame[(frame["state"] == "complete") & frame["objective"].notna()]
    return [int(number) for number in complete["number"].head(most)]


def text(plan: SweepPlan, most: int = 8) -> str:
    """The leading trials for a terminal: the columns that differ, as many as it has room for."""
    shown = _leading(plan, most)
    width = shutil.get_terminal_size().columns
    while True:
        lines = shown.to_string(index=False, na_rep="", float_format=short)
        if len(lines.partition("\n")[0]) < width or len(shown.columns) <= 4:
            return lines
        shown = shown.iloc[:, :-1]


def markdown(plan: SweepPlan, most: int = 8) -> str:
    """The leading trials for the description of the sweep in the MLflow UI."""
    shown = _leading(plan, most)
    rows = [list(shown.columns), ["---"] * len(shown.columns)]
    for row in shown.itertuples(index=False):
        rows.append(["" if pd.isna(cell) else short(cell) for cell in row])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    counts = table(plan)["state"].value_counts()
    summary = ", ".join(f"{counts[state]} {state}" for state in ORDER if state in counts)
    return "\n".join([f"{plan.trials} trials of {plan.task}: {summary}.", "", *lines])


def _leading(plan: SweepPlan, most: int) -> pd.DataFrame:
    """The first rows of the table, with the settings in which they differ."""
    frame = table(plan).head(most)
    settings = [name for name in frame.columns if name not in records.HOW_IT_WENT]
    varying = [name for name in settings if frame[name].astype(str).nunique() > 1]
    shown = frame[["number", "state", "objective", "validations", *varying[:6]]]
    return shown.rename(columns={"objective": plan.metric})


def short(value: object) -> str:
    """A setting in few characters, the same whether it is a number or the text of one."""
    text = str(value)
    try:
        return text if text.isdecimal() else f"{float(text):.4g}"
    except ValueError:
        return text
