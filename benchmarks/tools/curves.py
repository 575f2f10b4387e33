"""Plot the learning curves of several runs.

python -m benchmarks.tools.curves RUN ... --out curves.png
"""

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from tardis_core.cli import Parser, command
from tardis_core.config import config_from_dict
from tardis_core.errors import UserError
from tardis_core.tasks.base import TASKS


def read(run: Path) -> tuple[str, str, list[dict[str, float]]]:
    """The task of a run, its label and its validations."""
    try:
        config = config_from_dict(json.loads((run / "config.json").read_text())["config"])
        with open(run / "metrics.csv") as file:
            rows = [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)]
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{run} must be the folder of a run: {error}") from error
    return config.task, f"{config.system}, seed {config.seed}", rows


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Plot the validation metric of every run over its updates."""
    parser = Parser(
        prog="python -m benchmarks.tools.curves", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs of the same task")
    parser.add_argument("--out", required=True, help="PNG file to write")
    parser.add_argument("--title", default="", help="title of the plot")
    parser.add_argument("--top", type=float, help="upper limit of the metric's axis")
    options = parser.parse_args(arguments)
    runs = [read(run) for run in options.runs]
    tasks = {task for task, _, _ in runs}
    if len(tasks) != 1:
        raise UserError(f"the runs must be of one task, not {', '.join(sorted(tasks))}")
    metric = TASKS.get(tasks.pop()).metric
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for _, label, rows in runs:
        updates = [row["update"] for row in rows]
        axes.plot(updates, [row[f"valid_{metric.name}"] for row in rows], marker=".", label=label)
    axes.set(xlabel="updates", ylabel=f"validation {metric.name} ({metric.unit})")
    axes.set_title(options.title, fontsize=10)
    if options.top is not None:
        axes.set_ylim(top=options.top)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(options.out, dpi=120)
    print(f"written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
