"""Measure a trained model in full: `python -m orchestrator.evaluate RUN`.

The metric of the task and what lies behind it: for ptb both heads, for copy and recall the cost up
to five times the training length, for strokes and snli what is taken for what. All of it is
recorded to the run.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.common.outputs import writing_to
from orchestrator.models import lookup
from orchestrator.models.lookup import Trained
from orchestrator.tracking.mlflow_store import default_tracking_uri
from tardis_core.analysis.details import as_csv, as_text, draw_detail
from tardis_core.cli import Parser, command
from tardis_core.data.files import write_atomically
from tardis_core.tasks.base import Split, Task
from tardis_core.tasks.details import Confusion, Detail


def parser() -> Parser:
    """The options of the command."""
    made = Parser(prog="python -m orchestrator.evaluate", description=__doc__)
    lookup.add_options(made)
    made.add_argument("--split", default="test", help="valid or test (default: test)")
    return made


@dataclass(frozen=True)
class Evaluation:
    """What was measured on one split."""

    split: Split
    metrics: dict[str, float]
    details: list[Detail]

    def recorded(self) -> dict[str, float]:
        """Metrics as MLflow keeps them, with a figure a class of a confusion."""
        by_class = {
            f"{detail.name}_{name}_accuracy": float(right)
            for detail in self.details
            if isinstance(detail, Confusion)
            for name, right in zip(detail.classes, detail.accuracy_C, strict=True)
            if right == right  # of a class that occurs
        }
        return {f"{self.split}_{name}": value for name, value in (self.metrics | by_class).items()}

    def write(self, folder: Path, model: Trained) -> list[Path]:
        """JSON of the figures, CSV and PNG of each detail."""
        folder.mkdir(parents=True, exist_ok=True)
        figures = folder / f"{self.split}.json"
        about = {"run": model.title, "split": self.split, "data": model.values["provenance"]}
        text = json.dumps({**about, "metrics": self.recorded()}, indent=2)
        write_atomically(figures, f"{text}\n".encode())
        written = [figures]
        for detail in self.details:
            table = folder / f"{self.split}_{detail.name}.csv"
            write_atomically(table, as_csv(detail).encode())
            draw_detail(detail, table.with_suffix(".png"), f"{model.title}, {self.split}")
            written += [table, table.with_suffix(".png")]
        return written


def _print(model: Trained, task: Task, found: Evaluation) -> None:
    print(f"{model.title}: {found.split} split")
    words = {task.metric.name: task.metric.unit, **task.meanings}
    for name, value in found.metrics.items():
        print(f"  {name:<14}{value:>10.4f}  {words.get(name, '')}")
    for name in task.meanings.keys() - found.metrics.keys():
        print(f"  {name:<14}{'none':>10}  {task.meanings[name]}, which this model has not")
    for detail in found.details:
        print(as_text(detail))


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Find the model, measure it, write and record what was found."""
    options = parser().parse_args(arguments)
    split = lookup.split_named(options.split)
    model = lookup.find(options.run, options.tracking_uri or default_tracking_uri())
    task = model.task(options.data_dir, options.data)
    network = model.network(options.device)
    found = Evaluation(split, task.evaluate(network, split), task.details(network, split))
    _print(model, task, found)
    with writing_to(Path(options.out) if options.out else model.folder / "evaluate") as folder:
        written = found.write(folder, model)
    print(f"written to {written[0].parent}")
    if run_id := lookup.record(model, found.recorded(), written, "evaluate"):
        print(f"recorded in the run {run_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
