"""Pictures of a comparison: learning curves with bands, results with intervals, best of n."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from orchestrator.comparison import tables
from orchestrator.comparison.runs import ComparisonData, Group

POINTS = 60  # of a curve by seconds
WIDE = 8  # ratio of the greatest to the least value from which an axis is logarithmic


def draw(evidence: ComparisonData, folder: Path) -> dict[str, Path]:
    """Write the pictures; returns them by what they show."""
    seeds = [group for group in evidence.groups if not group.searched]
    drawings: dict[str, tuple[str, Callable[[Axes, ComparisonData], None]]] = {}
    if len(seeds) < len(evidence.groups):
        drawings["Expected best validation of n trials of a search"] = ("best_of_n", _best_of)
    if seeds:
        drawings["Results: each run, mean and 95 % interval"] = ("results", _results)
        drawings["Learning curves by updates"] = ("curves_updates", _by_updates)
        drawings["Learning curves by seconds of training"] = ("curves_seconds", _by_seconds)
    made = {}
    for title, (name, drawing) in drawings.items():
        height = max(3.0, 1 + 0.45 * len(evidence.groups)) if name == "results" else 4.5
        figure = Figure(figsize=(8, height))
        axes = figure.subplots()
        drawing(axes, evidence)
        axes.set_title(f"{title} ({evidence.data}, scale {evidence.scales})", fontsize=10)
        figure.tight_layout()
        made[title] = folder / f"{name}.png"
        figure.savefig(made[title], dpi=110)
    return made


def _results(axes: Axes, evidence: ComparisonData) -> None:
    table = tables.summary(evidence)
    values = tables.by_seed(evidence)
    for place, row in enumerate(table.iloc[::-1].itertuples()):
        runs = values[row.system].dropna()
        axes.plot(runs, [place] * len(runs), "o", color="tab:gray", alpha=0.5, markersize=5)
        axes.plot([row.low, row.high], [place, place], color="tab:blue", linewidth=2)
        axes.plot(row.mean, place, "D", color="tab:blue")
    axes.set_yticks(range(len(table)), [str(label) for label in table["system"][::-1]])
    axes.set_ylim(-0.5, len(table) - 0.5)
    axes.set_xlabel(f"{evidence.split} {evidence.metric.name} ({evidence.metric.unit})")
    axes.grid(axis="x", alpha=0.3)


def _by_updates(axes: Axes, evidence: ComparisonData) -> None:
    _curves(axes, evidence, "step")
    axes.set_xlabel("updates")


def _by_seconds(axes: Axes, evidence: ComparisonData) -> None:
    _curves(axes, evidence, "seconds")
    axes.set_xlabel("seconds of training, validation not counted")


def _curves(axes: Axes, evidence: ComparisonData, along: str) -> None:
    """The mean of each group, with a band from the least to the greatest of its runs."""
    for group in evidence.groups:
        if group.searched or any(run.curve[along].isna().any() for run in group.runs):
            continue
        places, values = _aligned(group, along)
        (line,) = axes.plot(places, values.mean(0), label=f"{group.label} ({len(group.runs)})")
        color = line.get_color()
        axes.fill_between(places, values.min(0), values.max(0), alpha=0.15, color=color)
    low, high = axes.get_ylim()
    if low > 0 and high / low > WIDE:
        axes.set_yscale("log")
        for which in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            which(LogFormatter())  # plain numbers, not powers of ten
    axes.set_ylabel(f"validation {evidence.metric.name}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, title="(runs)", title_fontsize=8)


def _aligned(group: Group, along: str) -> tuple[np.ndarray, np.ndarray]:
    """The curves of a group at common places, between the last start and the first end."""
    curves = [run.curve.sort_values(along) for run in group.runs]
    start = max(curve[along].iloc[0] for curve in curves)
    stop = min(curve[along].iloc[-1] for curve in curves)
    places = np.linspace(start, max(start, stop), POINTS)
    if along == "step":
        common = sorted(set.intersection(*(set(curve[along]) for curve in curves)))
        places = np.array(common, float) if common else places
    return places, np.array([np.interp(places, c[along], c["value"]) for c in curves])


def _best_of(axes: Axes, evidence: ComparisonData) -> None:
    for label, curve in tables.best_of(evidence).items():
        known = curve.dropna()
        axes.plot(known.index, known, marker=".", label=f"{label} ({len(known)} trials)")
    axes.set_xlabel("trials spent")
    axes.set_ylabel(f"expected best validation {evidence.metric.name}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
