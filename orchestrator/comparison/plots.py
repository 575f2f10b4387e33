"""Plots of a comparison: results with intervals, learning curves with bands, best of n trials."""

from collections.abc import Callable
from pathlib import Path

from matplotlib import rcParamsDefault, style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from orchestrator.comparison import tables
from orchestrator.comparison.runs import ComparisonData

COLORS, LINES = rcParamsDefault["axes.prop_cycle"], ("-", "--", ":")
WIDE = 8  # ratio of the greatest to the least value from which an axis is logarithmic


def draw(comparison: ComparisonData, folder: Path) -> dict[str, Path]:
    """Write the plots; returns them by title."""
    seeds = [group for group in comparison.groups if not group.searched]
    drawings: dict[str, tuple[str, Callable[[Axes, ComparisonData], None]]] = {}
    if len(seeds) < len(comparison.groups):
        drawings["Expected best validation of n trials of a search"] = ("best_of_n", _best_of)
    if seeds:
        drawings["Results: each run, mean and 95 % interval"] = ("results", _results)
        if comparison.metric.solved is not None:
            drawings["Share of the runs that have solved the task"] = ("solved", _solved)
        drawings["Learning curves by updates"] = ("curves_updates", _by_updates)
        drawings["Learning curves by seconds of training"] = ("curves_seconds", _by_seconds)
    paths = {}
    with style.context("default"):  # whatever style others have set in this process
        for title, (name, drawing) in drawings.items():
            paths[title] = folder / f"{name}.png"
            _draw(comparison, drawing, title, paths[title])
    return paths


def _draw(
    comparison: ComparisonData,
    drawing: Callable[[Axes, ComparisonData], None],
    title: str,
    path: Path,
) -> None:
    height = max(3.0, 1 + 0.45 * len(comparison.groups)) if drawing is _results else 4.5
    figure = Figure(figsize=(8, height), layout="tight")
    axes = figure.subplots()
    drawing(axes, comparison)
    axes.set_title(f"{title} ({comparison.data}, scale {comparison.scales})", fontsize=10)
    figure.savefig(path, dpi=110)


def _results(axes: Axes, comparison: ComparisonData) -> None:
    table = tables.summary(comparison)
    values = tables.by_seed(comparison)
    for place, row in enumerate(table.iloc[::-1].itertuples()):
        runs = values[row.candidate].dropna()
        axes.plot(runs, [place] * len(runs), "o", color="tab:gray", alpha=0.5, markersize=5)
        axes.plot([row.low, row.high], [place, place], color="tab:blue", linewidth=2)
        axes.plot(row.mean, place, "D", color="tab:blue")
    axes.set_yticks(range(len(table)), [str(label) for label in table["candidate"][::-1]])
    axes.set_ylim(-0.5, len(table) - 0.5)
    metric = comparison.metric
    axes.set_xlabel(f"{comparison.split} {metric.name} ({metric.unit})")
    axes.grid(axis="x", alpha=0.3)


def _by_updates(axes: Axes, comparison: ComparisonData) -> None:
    _curves(axes, comparison, "step")
    axes.set_xlabel("updates")


def _by_seconds(axes: Axes, comparison: ComparisonData) -> None:
    _curves(axes, comparison, "seconds")
    axes.set_xlabel("seconds of training, validation not counted")


def _curves(axes: Axes, comparison: ComparisonData, along: str) -> None:
    """The mean of each group, with a band from the least to the greatest of its runs."""
    for group in comparison.groups:
        if group.searched or any(run.curve[along].isna().any() for run in group.runs):
            continue
        places, values = tables.aligned_curves(group, along)
        (line,) = axes.plot(places, values.mean(0), label=f"{group.label} ({len(group.runs)})")
        color = line.get_color()
        axes.fill_between(places, values.min(0), values.max(0), alpha=0.15, color=color)
    low, high = axes.get_ylim()
    if low > 0 and high / low > WIDE:
        axes.set_yscale("log")
        for set_formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            set_formatter(LogFormatter())  # plain numbers, not powers of ten
    axes.set_ylabel(f"validation {comparison.metric.name} ({comparison.metric.unit})")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, title="(runs)", title_fontsize=8)


def _solved(axes: Axes, comparison: ComparisonData) -> None:
    """Steps; each group a little lower than the one before, or equal ones would hide each other."""
    shares = tables.solved_shares(comparison)
    for place, (label, share) in enumerate(shares.items()):
        line = LINES[place // len(COLORS) % len(LINES)]
        axes.step(share.index, share - 0.006 * place, line, where="post", label=str(label))
    axes.set_xlabel("updates")
    axes.set_ylabel("share of the runs")
    axes.set_ylim(-0.1, 1.05)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _best_of(axes: Axes, comparison: ComparisonData) -> None:
    for label, curve in tables.best_of(comparison).items():
        values = curve.dropna()
        axes.plot(values.index, values, marker=".", label=f"{label} ({len(values)} trials)")
    axes.set_xlabel("trials")
    axes.set_ylabel(f"expected best validation {comparison.metric.name} ({comparison.metric.unit})")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
