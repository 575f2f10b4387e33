"""The quality of estimators as a plot."""

import math
from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tardis_core.analysis.estimator_quality import Quality

PER_ROW = 4  # panels
MARKS = "osD^v<>Pp*Xh"
NEARLY_NONE = 1e-3  # of the noise of an estimator that has none, so that it is on the axis


def draw_quality(panels: Mapping[str, Mapping[str, Quality]], path: Path | str) -> None:
    """Bias against noise, one panel per problem and one mark per estimator.

    Args:
        panels: by the name of a problem, quality by the name of an estimator.
    """
    columns = min(PER_ROW, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(3.3 * columns + 1.8, 3.3 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, (title, by_name) in zip(grid.flat, panels.items(), strict=False):
        _panel(axes, by_name)
        axes.set_title(title)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    figure.supxlabel("noise: standard deviation / |true gradient|", fontsize=10)
    figure.supylabel("bias / |true gradient|", fontsize=10)
    names = next(iter(panels.values()))
    figure.legend(handles=_legend(list(names)), loc="outside right center", fontsize=8)
    figure.savefig(path, dpi=110)


def is_unbiased(quality: Quality) -> bool:
    """Whether the bias cannot be told from zero."""
    return quality.bias < 2 * quality.uncertainty


def _panel(axes: Axes, by_name: Mapping[str, Quality]) -> None:
    for number, quality in enumerate(by_name.values()):
        # What cannot be told from zero is drawn hollow, at what could just be told.
        none = is_unbiased(quality)
        bias = 2 * quality.uncertainty if none else quality.bias
        axes.plot(
            max(quality.deviation, NEARLY_NONE),
            bias,
            MARKS[number % len(MARKS)],
            color=f"C{number % 10}",
            fillstyle="none" if none else "full",
            ms=8,
        )
    axes.set(xscale="log", yscale="log")
    axes.grid(alpha=0.3)


def _legend(names: list[str]) -> list[Line2D]:
    marks = [
        Line2D([], [], ls="", marker=MARKS[n % len(MARKS)], color=f"C{n % 10}", label=name)
        for n, name in enumerate(names)
    ]
    hollow = Line2D([], [], ls="", marker="o", color="0.4", fillstyle="none")
    hollow.set_label("hollow: no bias found;\nit is below the mark")
    return [*marks, hollow]
