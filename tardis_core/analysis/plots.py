"""Plots of the memory access of one sequence."""

from pathlib import Path

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc
from matplotlib.ticker import MaxNLocator

from tardis_core.analysis.access import NEVER, Access

READ, WRITE, QUIET = "tab:blue", "tab:orange", "0.72"
ANSWER = "tab:red"


@style.context("default")  # whatever style others have set in this process
def draw_access(access: Access, path: Path | str, title: str = "") -> None:
    """One PNG, time from left to right, the tokens under it: cells, wormholes, gates, usage."""
    access_figure(access, title).savefig(path, dpi=110)


@style.context("default")
def access_figure(access: Access, title: str = "") -> Figure:
    """The same as a figure of matplotlib."""
    gates = access.alpha_T is not None
    heights = [2.6, 3.0, *([1.2] if gates else []), 1.9]
    width = float(np.clip(2.5 + 0.16 * access.steps, 8, 30))
    # Not by pyplot, which would choose a backend for the whole program, and keep every figure.
    figure = Figure(figsize=(width, 1.3 * sum(heights)), layout="constrained")
    rows = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    figure.suptitle(title, fontsize=11)
    _draw_cells(rows[0], access)
    _draw_wormholes(rows[1], access)
    if gates:
        _draw_gates(rows[2], access)
    _draw_usage(rows[-1], access)
    for axes in rows:
        _mark_answers(axes, access)
        axes.tick_params(axis="x", length=0)
    for axes in (rows[0], rows[-1]):
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in (rows[1], rows[-1]):
        _write_labels(axes, access)
    rows[0].set_xlim(-1, access.steps)
    return figure


def _draw_cells(axes: Axes, access: Access) -> None:
    """The cells read and written, over the probability of each read."""
    time = np.arange(access.steps)
    axes.imshow(
        access.probability_TK.T,
        aspect="auto",
        origin="lower",
        cmap="Blues",
        vmin=0,
        vmax=1.6,  # pale, so that the marks stand out
        extent=(-0.5, access.steps - 0.5, -0.5, access.cells - 0.5),
    )
    axes.plot(time, access.written_T, "s", ms=7, mfc="none", mec=WRITE, label="written")
    axes.plot(time, access.read_T, ".", ms=6, color=READ, label="read")
    axes.set(ylabel="cell", title="Reads and writes (shade: probability of a read)")
    _legend(axes)


def _draw_wormholes(axes: Axes, access: Access) -> None:
    """An arc from every step back to the step that wrote what it reads."""
    highest = 1
    everything_scored = bool(access.scored_T.all())
    for t, source in enumerate(access.source_T):
        if source == NEVER:
            continue
        span = int(t - source)
        highest = max(highest, span)
        answers = access.scored_T[t] and not everything_scored
        axes.add_patch(
            Arc(
                ((t + source) / 2, 0),
                span,
                span,
                theta1=0,
                theta2=180,
                color=ANSWER if answers else READ,
                alpha=0.85 if answers else 0.5,
                lw=1.2 if answers else 0.9,
            )
        )
    empty = np.flatnonzero(access.source_T == NEVER)
    axes.plot(empty, np.zeros(len(empty)), "x", ms=4, color=QUIET)
    axes.set(
        ylim=(-0.02 * highest, 0.55 * highest),
        yticks=[],
        title="Wormholes: from a read back to the step that wrote the cell (x: an empty cell)",
    )


def _draw_gates(axes: Axes, access: Access) -> None:
    assert access.alpha_T is not None
    assert access.beta_T is not None
    axes.plot(access.alpha_T, color=READ, lw=1.2, label="alpha (open to what is read)")
    axes.plot(access.beta_T, color=WRITE, lw=1.2, label="beta (open to h)")
    axes.set(ylim=(-0.05, 1.05), ylabel="gate", title="RESET gates")
    _legend(axes)


def _draw_usage(axes: Axes, access: Access) -> None:
    image = axes.imshow(
        access.usage_TK.T,
        aspect="auto",
        origin="lower",
        cmap="viridis",
        extent=(-0.5, access.steps - 0.5, -0.5, access.cells - 0.5),
    )
    axes.set(ylabel="cell", title="Usage: reads of each cell so far")
    axes.figure.colorbar(image, ax=axes, pad=0.01)


def _mark_answers(axes: Axes, access: Access) -> None:
    """Dotted lines around the steps at which the model is judged, unless it is at every step."""
    if access.scored_T.all():
        return
    edges = np.flatnonzero(np.diff(np.r_[False, access.scored_T, False].astype(int)))
    for first, last in edges.reshape(-1, 2):
        for edge in (first, last):
            axes.axvline(edge - 0.5, color=ANSWER, lw=0.8, ls=":")


def _write_labels(axes: Axes, access: Access) -> None:
    long = max(map(len, access.labels)) > 1
    axes.set_xticks(np.arange(access.steps), access.labels)
    axes.tick_params(
        axis="x",
        labelbottom=True,
        labelsize=7 if long else 9,
        labelrotation=90 if long else 0,
        labelfontfamily="monospace",
    )


def _legend(axes: Axes) -> None:
    """Above the right end of the panel, where it hides nothing."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 0.98),
        ncols=2,
        fontsize=8,
        frameon=False,
        borderaxespad=0.2,
    )
