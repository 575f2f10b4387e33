"""The report of a comparison as one page."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pandas as pd

from orchestrator.comparison import page_plots, tables
from orchestrator.comparison.report import (
    PAGE,
    SECTIONS,
    all_tables,
    differing_settings,
    headline,
    write_files,
    written,
)
from orchestrator.comparison.runs import ComparisonData
from orchestrator.page.page import (
    Code,
    Image,
    Page,
    Part,
    Plot,
    Section,
    Table,
    render,
)
from orchestrator.results.headline import made_up
from tardis_core.commands import training_command
from tardis_core.text import number


def write(
    comparison: ComparisonData, folder: Path, memory_plots: Sequence[Path] = ()
) -> list[Path]:
    """Write tables, plots and the page; returns the files."""
    files = write_files(comparison, folder)
    path = folder / PAGE
    path.write_text(render(page(comparison, memory_plots)))
    return [*files, path]


def page(comparison: ComparisonData, memory_plots: Sequence[Path] = ()) -> Page:
    """The page of a comparison."""
    failures = tables.failures(comparison)
    tags = {"data": comparison.data, "data.real": str(comparison.real)}
    return Page(
        title=f"Comparison: {comparison.task}",
        headline=headline(comparison),
        figures=_figures(comparison),
        facts=comparison.facts,
        warnings=[*made_up(tags), *([failures] if failures else [])],
        sections=list(_sections(comparison, memory_plots)),
    )


def _figures(comparison: ComparisonData) -> dict[str, str]:
    best = tables.summary(comparison).iloc[0]
    return {
        f"Best mean {comparison.metric.name}": number(float(best["mean"])),
        "Best": str(best["candidate"]),
        "Candidates": str(len(comparison.groups)),
        "Runs": str(sum(len(group.runs) for group in comparison.groups)),
    }


def _sections(comparison: ComparisonData, memory_plots: Sequence[Path]) -> Iterator[Section]:
    metric, frames = comparison.metric.name, all_tables(comparison)
    plots = _plots(comparison, frames.keys())
    for name, frame in frames.items():
        parts = [*plots.get(name, []), table(frame, metric)]
        yield Section(SECTIONS[name].title, parts, SECTIONS[name].note)
    if curves := plots["curves"]:
        yield Section("Learning", curves, "Mean of the runs; the band is their range.")
    if memory_plots:
        images = [Image(path.stem.replace("_", " "), path) for path in memory_plots]
        yield Section("How the best run uses its memory", images)
    yield _commands(comparison)
    settings = differing_settings(comparison)
    differing = [table(settings, metric)] if len(settings) else []
    yield Section("Settings that differ", differing, "" if differing else "None.")


def _plots(comparison: ComparisonData, names: Collection[str]) -> dict[str, list[Part]]:
    """The plots by the table that they belong to."""
    every: dict[str, list[Plot | None]] = {
        "differences": [page_plots.improvements(comparison)] if "differences" in names else [],
        "until_solved": [page_plots.solved(comparison)] if "until_solved" in names else [],
        "best_of_n": [page_plots.best_of(comparison)],
        "comparison": [page_plots.results(comparison)] if "by_seed" in names else [],
        "curves": [
            page_plots.curves(comparison, "step", "updates"),
            page_plots.curves(comparison, "seconds", "seconds of training"),
        ],
    }
    return {name: [plot for plot in plots if plot] for name, plots in every.items()}


def _commands(comparison: ComparisonData) -> Section:
    commands = "\n".join(comparison.commands)
    runs = [f"# {group.label}\n{training_command(group.config)}" for group in comparison.groups]
    note = f"This comparison again, and one run of each candidate alone, on {comparison.data}."
    return Section("Commands", [Code(commands), Code("\n\n".join(runs))], note)


def table(frame: pd.DataFrame, metric: str) -> Table:
    """A frame as a table of the page."""
    cells = written(frame, metric)
    return Table(list(cells), cells.to_numpy().tolist())
