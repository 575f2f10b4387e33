"""A comparison as tables and plots: for the terminal, as files, and with words for a page."""

import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from orchestrator.comparison import tables
from orchestrator.comparison.runs import ComparisonData
from orchestrator.comparison.stats import MOST_SEEDS
from tardis_core.text import aligned, number

PAGE = "report.html"
HEADINGS = {  # of the columns whose name in the CSV file is shorter
    "deviation": "std. deviation",
    "low": "95 % low",
    "high": "95 % high",
    "iqm": "interquartile mean",
    "best": "best by validation",
    "probability": "P(better)",
    "needed": "seeds needed",
    "by": "difference",
    "corrected": "p (Holm)",
}
PROBABILITIES = ("p", "corrected", "probability", "needed")  # not aligned: their sizes differ
# What a narrow terminal leaves out, in this order; the page and the CSV files have it all.
SPARE = ("p", "deviation", "best", "pairs", "needed", "probability", "low", "high", "runs")


class Section(NamedTuple):
    """The title and the explanation above a table."""

    title: str
    note: str


SECTIONS = {
    "comparison": Section(
        "Results",
        "Mean over the runs with its 95 % interval: Student's t, corrected for skewness.",
    ),
    "differences": Section(
        "Differences",
        "Paired by seed: seeds that only one of the two has are left out. p by permutation, "
        "corrected for the number of differences by Holm's method. P(better): probability that a "
        "run of the first is better than one of the second. Seeds needed: to establish a "
        "difference as large as the measured one with a probability of 80 %.",
    ),
    "until_solved": Section(
        "Until solved",
        "The share of the runs with a validation that counts as solved, with its 95 % interval "
        "(Wilson), and the median of the updates, sequences and seconds of training until the "
        "first such validation; there is no median unless more than half of the runs solve it.",
    ),
    "by_seed": Section("Every run", "One row per seed."),
    "best_of_n": Section(
        "Expected best of n trials",
        "The expected best validation of n trials drawn from each search.",
    ),
}


def all_tables(comparison: ComparisonData) -> dict[str, pd.DataFrame]:
    """Every table that is not empty, by its name."""
    frames = {
        "comparison": tables.summary(comparison),
        "differences": tables.differences(comparison),
        "until_solved": tables.until_solved(comparison),
        "by_seed": tables.by_seed(comparison).reset_index(),
        "best_of_n": tables.best_of(comparison).reset_index(),
    }
    if any(group.searched for group in comparison.groups):
        del (
            frames["differences"],
            frames["until_solved"],
            frames["by_seed"],
        )  # the trials of a search are not replicates
    return {name: frame for name, frame in frames.items() if len(frame)}


def write_files(comparison: ComparisonData, folder: Path) -> list[Path]:
    """Write the tables and plots as files; returns them."""
    from orchestrator.comparison import plots  # matplotlib would delay the start of every sweep

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, frame in all_tables(comparison).items():
        paths.append(folder / f"{name}.csv")
        frame.to_csv(paths[-1], index=False)
    return [*paths, *plots.draw(comparison, folder).values()]


def headline(comparison: ComparisonData) -> str:
    """Task, metric, data and scale in one sentence."""
    metric = comparison.metric
    data = comparison.data if comparison.real else f"{comparison.data}, a stand-in"
    return (
        f"{comparison.task}: {comparison.split} {metric.name} ({metric.unit}, {metric.better} is "
        f"better) on {data}; scale {comparison.scales}"
    )


def text(comparison: ComparisonData) -> str:
    """The tables for a terminal."""
    frames, metric = all_tables(comparison), comparison.metric.name
    summary = frames["comparison"].drop(columns="iqm")  # a terminal is narrow
    parts = [headline(comparison), "", _lines(summary, metric)]
    if failures := tables.failures(comparison):
        parts += ["", failures]
    if "differences" in frames:
        parts += ["", "Differences, paired by seed; p by permutation, corrected by Holm's method:"]
        parts.append(_lines(frames["differences"], metric))
    if "until_solved" in frames:
        parts += ["", "Share of runs that solve the task, and the median until they do:"]
        parts.append(_lines(frames["until_solved"], metric))
    if "best_of_n" in frames:
        parts += ["", "Expected best validation of n trials:"]
        parts.append(_lines(_thinned(frames["best_of_n"]), metric))
    return "\n".join(parts)


def _lines(frame: pd.DataFrame, metric: str) -> str:
    """A table; on a terminal that is too narrow for it, without columns that can be spared."""
    spare = [name for name in SPARE if name in frame] if sys.stdout.isatty() else []
    while True:
        lines = _aligned_text(written(frame, metric), frame)
        if not spare or max(map(len, lines.splitlines())) <= shutil.get_terminal_size().columns:
            return lines
        frame = frame.drop(columns=spare.pop(0))


def _aligned_text(cells: pd.DataFrame, frame: pd.DataFrame) -> str:
    """Names at the left of their columns and numbers at the right; pandas puts all at the right."""
    columns = []
    for (heading, column), values in zip(cells.items(), frame.dtypes, strict=True):
        texts = [str(heading), *column]
        side = ">" if pd.api.types.is_numeric_dtype(values) else "<"
        width = max(map(len, texts))
        columns.append([f"{text:{side}{width}}" for text in texts])
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))


def _thinned(frame: pd.DataFrame) -> pd.DataFrame:
    """1, 2, 4, 8, ... trials, and all of them."""
    last = frame["trials"].max()
    return frame[frame["trials"].map(lambda n: n == last or (n & (n - 1)) == 0)]


def written(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """A table with its headings and numbers as people read them."""
    cells = {str(name): _column(str(name), frame[name]) for name in frame.columns}
    headings = {"mean": f"mean {metric}", **HEADINGS}
    return pd.DataFrame({headings.get(name, name): column for name, column in cells.items()})


def _column(name: str, values: pd.Series) -> list[str]:
    if values.dtype.kind == "f" and name not in PROBABILITIES:
        return aligned(values.tolist())
    return [f"over {MOST_SEEDS}" if value == np.inf else number(value) for value in values]


def differing_settings(comparison: ComparisonData) -> pd.DataFrame:
    """One row per setting that is not the same in all groups."""
    frame = pd.DataFrame(
        {group.label: group.config.settings() for group in comparison.groups}, dtype=object
    )
    differing = frame[frame.astype(str).nunique(axis=1) > 1]
    return differing.rename_axis("setting").reset_index()
