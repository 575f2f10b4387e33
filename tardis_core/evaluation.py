"""A trained model and its evaluation: the metric of the task, and what lies behind it.

`python -m tardis_core.evaluate` and `python -m orchestrator.evaluate` are this with different ways
to find the model.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tardis_core.analysis.cache import Cache, cached_bpc
from tardis_core.analysis.details import as_csv, as_text, draw_detail
from tardis_core.analysis.other_cells import with_cells
from tardis_core.analysis.uniform_reads import with_uniform_reads
from tardis_core.build import build_task, load_data
from tardis_core.config import Config
from tardis_core.data.files import write_atomically
from tardis_core.errors import require
from tardis_core.models.network import Network
from tardis_core.tasks.base import Split, Task
from tardis_core.tasks.details import Confusion, Detail
from tardis_core.text import counted
from tardis_core.training import precision
from tardis_core.training.loop import pick_device
from tardis_core.training.run_folder import check_data, load_checkpoint, load_network

BEST = "best.pt"  # the best weights, in the folder of a run


@dataclass(frozen=True)
class TrainedModel:
    """The weights of a run with its configuration."""

    source: Path  # of the weights; it may be gone by now
    values: dict[str, Any]  # of the checkpoint
    config: Config

    @property
    def provenance(self) -> dict[str, Any]:
        """The data that the run was trained on."""
        return dict(self.values.get("provenance", {}))

    @property
    def title(self) -> str:
        """Data, system, scale, seed and update: a stand-in is named as such."""
        config, about = self.config, self.values.get("started_from")
        start = f", started from {about['source']}" if about else ""
        return (
            f"{self.provenance.get('name', config.task)}, {config.system}, scale {config.scale},"
            f" seed {config.seed}, update {self.values['update']}{start}"
        )

    def network(
        self, device: str = "auto", reads: str = "own", cells: int | None = None
    ) -> Network:
        """The network with its trained weights.

        Args:
            reads: `uniform` reads cells that are drawn at random.
            cells: of the memory, in place of those that it was trained with.
        """
        network = load_network(self.values, self.config, self.source)
        if cells is not None:
            network = with_cells(network, cells)
        if reads == "uniform":
            network = with_uniform_reads(network)
        return network.to(pick_device(device))

    def task(self, data_dir: str | None = None, data: str = "auto") -> Task:
        """The task on the data that the run was trained on; other data is refused."""
        if data == "auto" and not self.provenance.get("real", True):
            data = "standin"
        loaded = load_data(self.config, data_dir, data)
        task = build_task(self.config, loaded)
        provenance = task.provenance(self.config.task_settings, loaded)
        check_data(self.source, self.provenance, provenance)
        return task


def load_model(path: Path) -> TrainedModel:
    """The model of a checkpoint file, or of the best weights in the folder of a run."""
    weights = path / BEST if path.is_dir() else path
    return TrainedModel(weights, *load_checkpoint(weights))


@dataclass(frozen=True)
class Evaluation:
    """What was measured of a model on one split."""

    model: TrainedModel
    split: Split
    reads: str
    cells: int | None  # in place of those of the model
    metrics: dict[str, float]
    details: list[Detail]
    units: dict[str, str]  # of all metrics that the task may have

    @property
    def prefix(self) -> str:
        """What begins the names of metrics and files: other reads are not the run's own result."""
        cells = "" if self.cells is None else f"_{self.cells}_cells"
        reads = "" if self.reads == "own" else f"_{self.reads}_reads"
        return f"{self.split}{cells}{reads}"

    def named_metrics(self) -> dict[str, float]:
        """All metrics with the prefix before their names, and one accuracy per class."""
        by_class = {
            f"{detail.name}_{name}_accuracy": float(accuracy)
            for detail in self.details
            if isinstance(detail, Confusion)
            for name, accuracy in zip(detail.classes, detail.accuracy_C, strict=True)
            if accuracy == accuracy  # of a class that occurs
        }
        return {f"{self.prefix}_{name}": value for name, value in (self.metrics | by_class).items()}

    def text(self) -> str:
        """The metrics as a table, then the details."""
        cells = "" if self.cells is None else f", {counted(self.cells, 'memory cell')}"
        reads = ", uniform reads" if self.reads == "uniform" else ""
        lines = [f"{self.model.title}: {self.split} split{cells}{reads}"]
        lines += [
            f"  {name:<14}{value:>10.4f}  {self.units.get(name, '')}"
            for name, value in self.metrics.items()
        ]
        lines += [
            f"  {name:<14}{'-':>10}  {unit}: not available for this model"
            for name, unit in self.units.items()
            if name not in self.metrics
        ]
        return "\n".join([*lines, *map(as_text, self.details)])

    def json(self) -> str:
        """The metrics as one line of JSON."""
        update = self.model.values["update"]
        return json.dumps({"split": self.split, "update": update, **self.metrics})

    def write(self, folder: Path) -> list[Path]:
        """Write the metrics as JSON, and each detail as CSV and PNG; returns the files."""
        folder.mkdir(parents=True, exist_ok=True)
        metrics = folder / f"{self.prefix}.json"
        about = {"run": self.model.title, "split": self.split, "data": self.model.provenance}
        text = json.dumps({**about, "metrics": self.named_metrics()}, indent=2)
        write_atomically(metrics, f"{text}\n".encode())
        paths = [metrics]
        for detail in self.details:
            table = folder / f"{self.prefix}_{detail.name}.csv"
            write_atomically(table, as_csv(detail).encode())
            plot = table.with_suffix(".png")
            draw_detail(detail, plot, f"{self.model.title}, {self.prefix}")
            paths += [table, plot]
        return paths


@precision.products("float32")
def evaluate_model(model: TrainedModel, options: argparse.Namespace) -> Evaluation:
    """Evaluate a model as the options of `evaluation_parent` say."""
    cache = _cache_of(options)  # first: a wrong option is refused before data is loaded
    task = model.task(options.data_dir, options.data)
    network = model.network(options.device, options.reads, options.cells)
    metrics = task.evaluate(network, options.split)
    units = {task.metric.name: task.metric.unit, **task.meanings}
    if cache is not None:
        metrics["cache_bpc"], cache = cached_bpc(network, task, options.split, cache)
        units["cache_bpc"] = (
            f"bits per character with a cache of {cache.size} symbols, "
            f"theta {cache.theta}, lambda {cache.weight}"
        )
    details = task.details(network, options.split)
    return Evaluation(model, options.split, options.reads, options.cells, metrics, details, units)


def _cache_of(options: argparse.Namespace) -> Cache | None:
    """The cache that is asked for."""
    if options.cache is not None:
        return Cache(options.cache, options.theta, options.cache_weight)
    require(
        options.theta is None and options.cache_weight is None,
        "--theta and --lambda are settings of a cache; give its size as well, such as --cache 500",
    )
    return None


def print_evaluation(evaluation: Evaluation, as_json: bool) -> None:
    """Print an evaluation as a table, or as JSON."""
    print(evaluation.json() if as_json else evaluation.text())
