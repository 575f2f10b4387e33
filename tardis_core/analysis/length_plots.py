"""Plots of a cost by the length of the sequences, for several models."""

from pathlib import Path

import pandas as pd
from matplotlib import colormaps, style
from matplotlib.figure import Figure

PLAIN = style.context("default")  # whatever style others have set in this process


@PLAIN
def draw_lengths(table: pd.DataFrame, seen: int, success: float, path: Path | str) -> None:
    """The median over seeds by length, one line per model, with every seed as a mark.

    Args:
        table: columns model, seed, items and bce (nats per bit).
        seen: the greatest length of training.
        success: the cost below which the task counts as solved.
    """
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    models = list(dict.fromkeys(table["model"]))
    for place, model in enumerate(models):
        rows = table[table["model"] == model]
        colour = "0.4" if place == 0 else colormaps["viridis"](0.9 * (place - 1) / len(models))
        medians = rows.groupby("items")["bce"].median()
        axes.plot(medians.index, medians, color=colour, lw=1.5, label=model)
        axes.plot(rows["items"], rows["bce"], "o", color=colour, ms=3, alpha=0.6)
    axes.axhline(success, color="tab:red", lw=1, ls=":", label=f"solved: below {success}")
    axes.axvline(seen, color="0.4", lw=1, ls="--")
    axes.annotate(
        " longest in training",
        (seen, 0.97),
        xycoords=("data", "axes fraction"),
        fontsize=8,
        color="0.4",
        va="top",
    )
    ticks = sorted(set(table["items"]))
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set(xlabel="items", ylabel="test cross-entropy (nats per bit)", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=110)
