"""The details of an evaluation as a table and as a plot."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from tardis_core.tasks.details import Confusion, Curve, Detail

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def as_csv(detail: Detail) -> str:
    """One row per point of a curve, or per true class."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if isinstance(detail, Curve):
        writer.writerow([detail.x_label, detail.y_label])
        writer.writerows(zip(detail.x, detail.y, strict=True))
    else:
        writer.writerow(["true class", *detail.classes])
        for name, row in zip(detail.classes, detail.counts_CC.tolist(), strict=True):
            writer.writerow([name, *row])
    return text.getvalue()


def as_text(detail: Detail) -> str:
    """The same for a terminal, in a few lines."""
    if isinstance(detail, Curve):
        head = f"{detail.y_label} by {detail.x_label}"
        lines = [f"  {x:>6g}  {y:8.4f}" for x, y in zip(detail.x, detail.y, strict=True)]
        return "\n".join([head, *lines])
    head = f"{'true, then answers':<18}" + "".join(f"{name[:7]:>8}" for name in detail.classes)
    lines = [
        f"  {name:<16}" + "".join(f"{count:>8}" for count in row) + f"   {right:5.1f} % right"
        for name, row, right in zip(
            detail.classes, detail.counts_CC.tolist(), detail.accuracy_C, strict=True
        )
    ]
    return "\n".join([head, *lines])


def draw_detail(detail: Detail, path: Path | str, title: str = "") -> None:
    """A PNG of it."""
    from matplotlib.figure import Figure  # most evaluations are not drawn, and it takes a second

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    if isinstance(detail, Curve):
        _draw_curve(axes, detail)
    else:
        _draw_confusion(axes, detail)
    axes.set_title(title, fontsize=10)
    figure.savefig(path, dpi=110)


def _draw_curve(axes: "Axes", curve: Curve) -> None:
    axes.plot(curve.x, curve.y, marker="o", ms=4)
    axes.set(xlabel=curve.x_label, ylabel=curve.y_label)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if curve.seen is not None:
        axes.axvline(curve.seen, color="0.4", ls="--", lw=1)
        axes.annotate(
            " longest in training",
            (curve.seen, 0.95),
            xycoords=("data", "axes fraction"),
            fontsize=8,
            color="0.4",
        )


def _draw_confusion(axes: "Axes", confusion: Confusion) -> None:
    totals_C1 = confusion.counts_CC.sum(1, keepdims=True).clip(min=1)
    share_CC = 100 * confusion.counts_CC / totals_C1
    image = axes.imshow(share_CC, cmap="Blues", vmin=0, vmax=100)
    places = range(len(confusion.classes))
    axes.set_xticks(places, confusion.classes)
    axes.set_yticks(places, confusion.classes)
    axes.set(xlabel="answer", ylabel="true class")
    for row in places:
        for column in places:
            value = share_CC[row, column]
            axes.text(
                column,
                row,
                f"{value:.0f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if value > 60 else "black",
            )
    axes.figure.colorbar(image, ax=axes, label="% of the true class")
