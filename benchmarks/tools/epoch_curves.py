"""Plot a table of the docs with one row per epoch, over the epochs and over the time they take.

python -m benchmarks.tools.epoch_curves docs/notebook.md --out docs/ptb-512.png \\
    --heading "Twenty epochs with 512 hidden units, one seed" \\
    --label "validation bits per character" \\
    --minutes LSTM=2.5 --minutes "TARDIS gumbel=3.4"
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from benchmarks.tools.page_tables import table_below
from tardis_core.cli import Parser, command, setting
from tardis_core.errors import UserError

EPOCH = "epoch"


def read(page: str, heading: str, columns: Sequence[str]) -> pd.DataFrame:
    """The columns of the table below a heading as numbers, by epoch."""
    table = table_below(page, heading, EPOCH)
    missing = [column for column in columns if column not in table]
    if missing:
        raise UserError(f"the table below {heading!r} has no column {missing[0]!r}")
    table = table[[EPOCH, *columns]].map(lambda cell: float(cell.strip("*")))
    return table.set_index(EPOCH)


def draw(table: pd.DataFrame, minutes: Mapping[str, float], label: str) -> Figure:
    """One line per column: on the left over epochs, on the right over minutes of training."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    by_epochs, by_minutes = figure.subplots(1, 2, sharey=True)
    for name, values in table.items():
        epochs = table.index.to_numpy()
        by_epochs.plot(epochs, values, marker=".", label=name)
        by_minutes.plot(epochs * minutes[str(name)], values, marker=".", label=name)
    by_epochs.set(xlabel="epochs", ylabel=label)
    by_minutes.set(xlabel="minutes of training, at the measured speed")
    by_epochs.xaxis.set_major_locator(MaxNLocator(integer=True))
    by_epochs.legend()
    for axes in (by_epochs, by_minutes):
        axes.grid(alpha=0.3)
        axes.set_xlim(left=0)
    return figure


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Read the table, and write its plot."""
    parser = Parser(
        prog="python -m benchmarks.tools.epoch_curves",
        description=(__doc__ or "").splitlines()[0],
    )
    add = parser.add_argument
    add("page", type=Path, help="a page of Markdown")
    add("--heading", required=True, help="the heading above the table")
    add("--label", required=True, help="what the values are")
    add(
        "--minutes",
        action="append",
        required=True,
        metavar="COLUMN=MINUTES",
        help="a column to draw, and the minutes that an epoch of it takes; repeatable",
    )
    add("--out", required=True, help="PNG file to write")
    options = parser.parse_args(arguments)
    minutes = {name: _minutes(name, value) for name, value in map(setting, options.minutes)}
    table = read(options.page.read_text(), options.heading, list(minutes))
    draw(table, minutes, options.label).savefig(options.out, dpi=110)
    print(f"written to {options.out}")
    return 0


def _minutes(column: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"--minutes {column} must be a number, not {text!r}") from None


if __name__ == "__main__":
    sys.exit(main())
