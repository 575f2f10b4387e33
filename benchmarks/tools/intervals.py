"""Plot the values by seed of a table in the docs, with their means and 95 % intervals.

python -m benchmarks.tools.intervals docs/notebook.md --out docs/ptb-compare.png \\
    --heading "500 updates after searches of equal cost, six seeds" \\
    --label "test bits per character"
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.tools.page_tables import table_below
from orchestrator.comparison.stats import mean_interval
from tardis_core.cli import Parser, command

COLUMN = "by seed"  # how the head of the column of values begins


def read(page: str, heading: str) -> dict[str, list[float]]:
    """The values by seed of each row of the first such table below a heading, by its first cell."""
    table = table_below(page, heading, COLUMN)
    column = next(name for name in table if name.startswith(COLUMN))
    by_label = zip(table.iloc[:, 0], table[column], strict=True)
    return {label: [float(value) for value in cell.split(",")] for label, cell in by_label}


def draw(values: dict[str, list[float]], label: str) -> Figure:
    """One line per row, the first at the top."""
    figure = Figure(figsize=(8, 1 + 0.45 * len(values)), layout="constrained")
    axes = figure.subplots()
    for place, runs in enumerate(reversed(values.values())):
        axes.plot(runs, [place] * len(runs), "o", color="tab:gray", alpha=0.5, markersize=5)
        axes.plot(mean_interval(runs), [place, place], color="tab:blue", linewidth=2)
        axes.plot(np.mean(runs), place, "D", color="tab:blue")
    axes.set_yticks(range(len(values)), reversed(values))
    axes.set(ylim=(-0.5, len(values) - 0.5), xlabel=f"{label}: each run, mean and 95 % interval")
    axes.grid(axis="x", alpha=0.3)
    return figure


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Read the table, and write its plot."""
    parser = Parser(
        prog="python -m benchmarks.tools.intervals", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("page", type=Path, help="a page of Markdown")
    parser.add_argument("--heading", required=True, help="the heading above the table")
    parser.add_argument("--label", required=True, help="what the values are")
    parser.add_argument("--out", required=True, help="PNG file to write")
    options = parser.parse_args(arguments)
    draw(read(options.page.read_text(), options.heading), options.label).savefig(
        options.out, dpi=110
    )
    print(f"written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
