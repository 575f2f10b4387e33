"""The leading trials of a sweep, for a terminal and for the MLflow UI."""

import shutil

import pandas as pd

from orchestrator.results.records import OUTCOME_COLUMNS, RANKED_STATES, Records
from tardis_core.text import short

OUTCOME_SHOWN = ("number", "state", "objective", "validations")


def text(records: Records, count: int = 8) -> str:
    """The leading trials for a terminal: the settings that differ, as many as fit.

    Names are short, as in the live view: `learning_rate` for `training.learning_rate`.
    """
    frame = records.table().head(count)
    # What all of them have comes first: the last columns may not fit.
    settings = sorted(_varying(frame), key=lambda name: frame[name].isna().any())
    shown = frame[[*OUTCOME_SHOWN, *settings]].astype(object).fillna("").map(short)
    shown = shown.rename(columns={"number": "trial", "objective": records.plan.metric})
    shown.columns = [name.rpartition(".")[2] for name in shown.columns]
    width = shutil.get_terminal_size().columns
    while True:
        lines = shown.to_string(index=False)
        if len(lines.partition("\n")[0]) < width or len(shown.columns) <= 4:
            return lines
        shown = shown.iloc[:, :-1]


def markdown(records: Records, count: int = 8) -> str:
    """The leading trials for the description of the sweep in the MLflow UI."""
    shown = leading(records, count)
    rows = [list(shown.columns), ["---"] * len(shown.columns)]
    for row in shown.itertuples(index=False):
        rows.append(["" if pd.isna(cell) else short(cell) for cell in row])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    counts = records.table()["state"].value_counts()
    summary = ", ".join(f"{counts[state]} {state}" for state in RANKED_STATES if state in counts)
    return "\n".join([f"{records.plan.size}: {summary}.", "", *lines])


def varying_settings(records: Records) -> list[str]:
    """The settings in which the trials of a sweep differ."""
    return _varying(records.table())


def _varying(frame: pd.DataFrame) -> list[str]:
    settings = [name for name in frame.columns if name not in OUTCOME_COLUMNS]
    return [name for name in settings if frame[name].astype(str).nunique() > 1]


def leading(records: Records, count: int) -> pd.DataFrame:
    """The first rows of the table, with the settings in which they differ."""
    frame = records.table().head(count)
    shown = frame[[*OUTCOME_SHOWN, *_varying(frame)[:6]]]
    return shown.rename(columns={"objective": records.plan.metric})
