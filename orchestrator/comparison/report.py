"""A comparison as files: tables, pictures, and one page that shows it all without a network."""

import base64
import html
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from orchestrator.comparison import plots as comparison_plots
from orchestrator.comparison import tables
from orchestrator.comparison.runs import ComparisonData
from tardis_core.commands import training_command

PAGE = "report.html"
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right }
th:first-child, td:first-child { text-align: left }
img { max-width: 100% }
pre { background: #f5f5f5; overflow-x: auto; padding: .6rem }
"""


def all_tables(evidence: ComparisonData) -> dict[str, pd.DataFrame]:
    """Every table there is to show, by its name."""
    made = {
        "comparison": tables.summary(evidence),
        "differences": tables.differences(evidence),
        "by_seed": tables.by_seed(evidence).reset_index(),
        "best_of_n": tables.best_of(evidence).reset_index(),
    }
    if any(group.searched for group in evidence.groups):
        del made["differences"], made["by_seed"]  # the trials of a search are no replicates
    return {name: table for name, table in made.items() if len(table)}


def write(evidence: ComparisonData, folder: Path) -> list[Path]:
    """Write all that can be said of the evidence; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, table in all_tables(evidence).items():
        paths.append(folder / f"{name}.csv")
        table.to_csv(paths[-1], index=False)
    pictures = comparison_plots.draw(evidence, folder)
    page = folder / PAGE
    page.write_text(_page(evidence, pictures))
    return [*paths, *pictures.values(), page]


def headline(evidence: ComparisonData) -> str:
    """What was measured, on what, and how much of it."""
    metric = evidence.metric
    name = evidence.data if evidence.real else f"{evidence.data}, which is made up"
    return (
        f"{evidence.task}: {evidence.split} {metric.name} ({metric.unit}, {metric.better} is "
        f"better) on {name}; scale {evidence.scales}"
    )


def text(evidence: ComparisonData) -> str:
    """The tables for a terminal."""
    found, metric = all_tables(evidence), evidence.metric.name
    parts = [headline(evidence), "", _lines(found["comparison"], metric)]
    if "differences" in found:
        parts += ["", "paired by seed, with bootstrap interval and permutation test:"]
        parts.append(_lines(found["differences"], metric))
    if "best_of_n" in found:
        parts += ["", "expected best validation of so many trials:"]
        parts.append(_lines(_thinned(found["best_of_n"]), metric))
    return "\n".join(parts)


def _thinned(frame: pd.DataFrame) -> pd.DataFrame:
    """1, 2, 4, 8, ... trials, and all of them."""
    last = frame["trials"].max()
    return frame[frame["trials"].map(lambda n: n == last or (n & (n - 1)) == 0)]


def _page(evidence: ComparisonData, pictures: Mapping[str, Path]) -> str:
    metric = evidence.metric.name
    titles = {
        "comparison": "Results",
        "differences": "Differences, paired by seed",
        "by_seed": "Every run",
        "best_of_n": "Expected best validation of n trials",
    }
    parts = [f"<h1>{html.escape(evidence.task)}</h1><p>{html.escape(headline(evidence))}</p>"]
    for name, table in all_tables(evidence).items():
        parts.append(f"<h2>{titles[name]}</h2>{_table(table, metric)}")
    parts += [f"<h2>{html.escape(title)}</h2>{_image(path)}" for title, path in pictures.items()]
    parts.append(f"<h2>How it was made</h2>{_commands(evidence)}")
    parts.append(f"<h2>Settings that differ</h2>{_settings(evidence)}")
    parts.append(f"<h2>With</h2>{_made_with(evidence)}")
    title = html.escape(f"Comparison: {evidence.task}")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )


def _lines(frame: pd.DataFrame, metric: str) -> str:
    """A table for a terminal."""
    return _named(frame, metric).to_string(index=False, na_rep="-", float_format="{:.4g}".format)


def _table(frame: pd.DataFrame, metric: str) -> str:
    """A table for a page."""
    return _named(frame, metric).to_html(
        index=False, border=0, na_rep="-", float_format="{:.4g}".format
    )


def _named(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    return frame.rename(columns={"mean": f"mean {metric}", "low": "95 % from", "high": "to"})


def _image(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{html.escape(path.stem)}" src="data:image/png;base64,{data}">'


def _commands(evidence: ComparisonData) -> str:
    lines = [*evidence.commands, "", f"# one run of each system alone, on {evidence.data}:"]
    lines += [f"# {group.label}\n{training_command(group.config)}" for group in evidence.groups]
    return f"<pre>{html.escape(chr(10).join(lines))}</pre>"


def _settings(evidence: ComparisonData) -> str:
    frame = pd.DataFrame(
        {group.label: group.config.settings() for group in evidence.groups}, dtype=object
    )
    differing = frame[frame.astype(str).nunique(axis=1) > 1]
    return differing.to_html(border=0, na_rep="-") if len(differing) else "<p>None.</p>"


def _made_with(evidence: ComparisonData) -> str:
    lines = [f"{key}: {value}" for key, value in sorted(evidence.environment.items())]
    return f"<pre>{html.escape(chr(10).join(lines))}</pre>"
