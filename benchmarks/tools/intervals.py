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

from orchestrator.comparison.stats import mean_interval
from tardis_core.cli import Parser, command
from tardis_core.errors import UserError

COLUMN = "by seed"  # how the head of the column of values begins


def read(page: str, heading: str) -> dict[str, list[float]]:
    """The values by seed of each row of the first such table below a heading, by its first cell."""
    lines = iter(page.splitlines())
    if not any(line.lstrip("# ") == heading for line in lines if line.startswith("#")):
        raise UserError(f"the page must have the heading {heading!r}")
    place, values = None, {}
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if place is None:
            place = next((n for n, cell in enumerate(cells) if cell.startswith(COLUMN)), None)
        elif not line.startswith("|"):
            break
        elif not set(line) <= set("|-"):
            values[cells[0]] = [float(value) for value in cells[place].split(",")]
    if not values:
        raise UserError(f"below {heading!r} must be a table with a column {COLUMN!r}")
    return values


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
