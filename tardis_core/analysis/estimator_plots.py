"""The quality of estimators as a picture."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tardis_core.analysis.estimator_quality import Quality

MARKS = "osD^v<>Pp*Xh"
NEARLY_NONE = 1e-3  # of the noise of an estimator that has none, so that it is on the axis


def draw_quality(panels: Mapping[str, Mapping[str, Quality]], path: Path | str) -> None:
    """Bias against noise, one panel per problem and one mark per estimator.

    Args:
        panels: by the name of a problem, quality by the name of an estimator.
    """
    figure = Figure(figsize=(3.7 * len(panels) + 1.8, 3.9), layout="constrained")
    axes = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for each, (title, by_name) in zip(axes, panels.items(), strict=True):
        _panel(each, by_name)
        each.set(title=title, xlabel="noise: standard deviation / |true gradient|")
    axes[0].set_ylabel("bias / |true gradient|")
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
