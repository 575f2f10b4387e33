"""A comparison as files: tables, plots, and one self-contained page that shows it all."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd

from orchestrator.comparison import plots, tables
from orchestrator.comparison.runs import ComparisonData
from tardis_core.commands import training_command

PAGE = "report.html"
TEMPLATE = "comparison.html.j2"
HEADINGS = {  # of the columns whose name in the CSV file is shorter
    "deviation": "std. deviation",
    "low": "95 % low",
    "high": "95 % high",
    "best": "best by validation",
    "by": "difference",
    "corrected": "p (Holm)",
}


class Section(NamedTuple):
    """What stands above a table."""

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
        "corrected for the number of differences by Holm's method.",
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
        "by_seed": tables.by_seed(comparison).reset_index(),
        "best_of_n": tables.best_of(comparison).reset_index(),
    }
    if any(group.searched for group in comparison.groups):
        del frames["differences"], frames["by_seed"]  # the trials of a search are not replicates
    return {name: frame for name, frame in frames.items() if len(frame)}


def write(
    comparison: ComparisonData, folder: Path, memory_plots: Sequence[Path] = ()
) -> list[Path]:
    """Write tables, plots and the page; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    frames, paths = all_tables(comparison), []
    for name, frame in frames.items():
        paths.append(folder / f"{name}.csv")
        frame.to_csv(paths[-1], index=False)
    drawings = plots.draw(comparison, folder)
    page = folder / PAGE
    page.write_text(_page(comparison, frames, drawings))
    return [*paths, *drawings.values(), page]


def headline(comparison: ComparisonData) -> str:
    """Task, metric, data and scale in one sentence."""
    metric = comparison.metric
    data = comparison.data if comparison.real else f"{comparison.data}, which is made up"
    return (
        f"{comparison.task}: {comparison.split} {metric.name} ({metric.unit}, {metric.better} is "
        f"better) on {data}; scale {comparison.scales}"
    )


def text(comparison: ComparisonData) -> str:
    """The tables for a terminal."""
    frames, metric = all_tables(comparison), comparison.metric.name
    parts = [headline(comparison), "", _lines(frames["comparison"], metric)]
    if failures := tables.failures(comparison):
        parts += ["", failures]
    if "differences" in frames:
        parts += ["", "Differences, paired by seed; p by permutation, corrected by Holm's method:"]
        parts.append(_lines(frames["differences"], metric))
    if "best_of_n" in frames:
        parts += ["", "Expected best validation of n trials:"]
        parts.append(_lines(_thinned(frames["best_of_n"]), metric))
    return "\n".join(parts)


def _lines(frame: pd.DataFrame, metric: str) -> str:
    named = frame.rename(columns=lambda name: _heading(name, metric))
    return named.to_string(index=False, na_rep="-", float_format="{:.4g}".format)


def _thinned(frame: pd.DataFrame) -> pd.DataFrame:
    """1, 2, 4, 8, ... trials, and all of them."""
    last = frame["trials"].max()
    return frame[frame["trials"].map(lambda n: n == last or (n & (n - 1)) == 0)]


def _page(
    comparison: ComparisonData, frames: Mapping[str, pd.DataFrame], drawings: Mapping[str, Path]
) -> str:
    # Labels and settings come from users: everything is escaped.
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("orchestrator.comparison"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    metric = comparison.metric.name
    return environment.get_template(TEMPLATE).render(
        task=comparison.task,
        data=comparison.data,
        headline=headline(comparison),
        failures=tables.failures(comparison),
        tables=[
            {**SECTIONS[name]._asdict(), **_cells(frame, metric)} for name, frame in frames.items()
        ],
        plots=[{"title": title, "data": _base64(path)} for title, path in drawings.items()],
        commands=comparison.commands,
        training=[(group.label, training_command(group.config)) for group in comparison.groups],
        settings=_cells(_differing_settings(comparison), metric),
        environment=sorted(comparison.environment.items()),
    )


def _cells(frame: pd.DataFrame, metric: str) -> dict[str, list[Any]]:
    """A table as the template wants it: headings, and rows of text."""
    return {
        "headings": [_heading(name, metric) for name in frame.columns],
        "rows": [[_cell(value) for value in row] for row in frame.itertuples(index=False)],
    }


def _heading(column: str, metric: str) -> str:
    return f"mean {metric}" if column == "mean" else HEADINGS.get(column, column)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "-" if value != value else f"{value:.4g}"
    return str(value)


def _differing_settings(comparison: ComparisonData) -> pd.DataFrame:
    """One row per setting that is not the same in all groups."""
    frame = pd.DataFrame(
        {group.label: group.config.settings() for group in comparison.groups}, dtype=object
    )
    differing = frame[frame.astype(str).nunique(axis=1) > 1]
    return differing.rename_axis("setting").reset_index()


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
