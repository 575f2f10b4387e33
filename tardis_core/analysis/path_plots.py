"""Plots of path lengths and of the flow of gradients."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tardis_core.analysis.gradients import Norms
from tardis_core.analysis.paths import Paths

SMALL = {"fontsize": 8}
TICKS = [1, 2, 3, 5, 10, 20, 50]
PLAIN = style.context("default")  # whatever style others have set in this process


@PLAIN
def draw_cell_lengths(lengths: Mapping[str, np.ndarray], expected: float, path: Path | str) -> None:
    """The paper's figure of the path length in each cell, one panel per kind of memory.

    Args:
        lengths: length_NK of simulations by the name of their kind.
    """
    figure = Figure(figsize=(5 * len(lengths), 3.4), layout="constrained")
    panels = figure.subplots(1, len(lengths), sharey=True)
    for axes, (name, length_NK) in zip(np.atleast_1d(panels), lengths.items(), strict=True):
        mean_K = length_NK.mean(0)
        error_K = length_NK.std(0, ddof=1) / np.sqrt(len(length_NK))
        axes.bar(
            np.arange(len(mean_K)), mean_K, yerr=error_K, color="tab:blue", alpha=0.7, ecolor="0.4"
        )
        axes.axhline(expected, color="tab:red", lw=1, label=f"T/K - 1 = {expected:g}")
        axes.set(xlabel="cell", title=f"{name}: mean of {len(length_NK)} simulations")
        axes.legend(**SMALL)
    np.atleast_1d(panels)[0].set_ylabel("path length in the cell")
    figure.savefig(path, dpi=110)


@PLAIN
def draw_shortest_paths(
    cells: list[int], paths_by_kind: Mapping[str, list[Paths]], distance: int, path: Path | str
) -> None:
    """The paper's figure of shortest paths against memory sizes: a) in all, b) outside wormholes.

    Args:
        paths_by_kind: by kind, for each memory size the paths of all simulations (N,).
    """
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    panels = figure.subplots(1, 2)
    titles = ("a) edges of the shortest path", "b) of these outside the wormholes")
    for place, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        for name, by_size in paths_by_kind.items():
            values = [np.asarray(paths[place]) for paths in by_size]
            mean = np.array([each.mean() for each in values])
            error = np.array([each.std(ddof=1) / np.sqrt(len(each)) for each in values])
            axes.errorbar(cells, mean, error, marker="o", ms=3, lw=1.2, label=name)
        axes.set(xlabel="memory cells", title=title, yscale="log", xscale="log")
        axes.set_xticks(cells, [str(size) for size in cells])
        axes.set_yticks(TICKS, [str(tick) for tick in TICKS])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(**SMALL)
    panels[0].axhline(distance, color="0.5", ls="--", lw=1)
    figure.savefig(path, dpi=110)


@PLAIN
def draw_paths_by_distance(lengths: Mapping[str, np.ndarray], path: Path | str, title: str) -> None:
    """Mean length of the shortest path against the distance of two steps."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    longest = max(len(each) for each in lengths.values())
    axes.plot(np.arange(longest), color="0.6", ls="--", lw=1, label="the recurrence alone")
    for name, length_D in lengths.items():
        axes.plot(length_D, lw=1.4, label=name)
    highest = max(float(each.max()) for each in lengths.values())
    axes.set(
        xlabel="distance of two steps",
        ylabel="edges of the shortest path",
        ylim=(0, 1.3 * highest),
        title=title,
    )
    axes.title.set_fontsize(10)
    axes.grid(alpha=0.3)
    axes.legend(**SMALL)
    figure.savefig(path, dpi=110)


@PLAIN
def draw_flow(
    norms_by_model: Mapping[str, tuple[Norms, Norms]], path: Path | str, ylabel: str
) -> None:
    """Norms of Q, R and their sum against distance, a panel a model.

    Args:
        norms_by_model: medians (drawn solid) and an upper percentile (dotted) by model.
    """
    figure = Figure(figsize=(4.2 * len(norms_by_model), 3.8), layout="constrained")
    panels = figure.subplots(1, len(norms_by_model), sharey=True)
    for axes, (name, (middle, upper)) in zip(
        np.atleast_1d(panels), norms_by_model.items(), strict=True
    ):
        _draw_norms(axes, middle, upper)
        axes.set(xlabel="distance t1 - t0", title=name, yscale="log")
        axes.grid(alpha=0.3)
    np.atleast_1d(panels)[0].set_ylabel(ylabel)
    np.atleast_1d(panels)[-1].legend(**SMALL)
    figure.savefig(path, dpi=110)


def _draw_norms(axes: Axes, middle: Norms, upper: Norms) -> None:
    labels = ("Q: along the recurrence", "R: through wormholes", "dh/dh = Q + R")
    colours = ("tab:orange", "tab:blue", "black")
    for solid, dotted, label, colour in zip(middle, upper, labels, colours, strict=True):
        if not dotted.any():
            continue
        # On a logarithmic axis there is no zero: a gap says so.
        axes.plot(np.where(solid > 0, solid, np.nan), color=colour, lw=1.4, label=label)
        axes.plot(np.where(dotted > 0, dotted, np.nan), color=colour, lw=0.9, ls=":")
