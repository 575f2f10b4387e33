"""A look inside a trained model: plots of its memory access, and metrics of how it is used."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from tardis_core.analysis.access import NEVER, Access, record_access, sources
from tardis_core.analysis.path_plots import draw_paths_by_distance
from tardis_core.analysis.paths import mean_by_distance, simulate
from tardis_core.analysis.plots import draw_access
from tardis_core.models.network import Network
from tardis_core.tasks.base import Split, Task

SEQUENCES = 16  # whose reads the metrics are computed from
SIMULATIONS = 200


class Inspection(NamedTuple):
    """The metrics and the plots."""

    sequences: int  # that the metrics are computed from
    metrics: dict[str, float]
    plots: list[Path]


def inspect_model(
    network: Network,
    task: Task,
    folder: Path,
    title: str = "",
    split: Split = "test",
    example: int = 0,
) -> Inspection:
    """Draw the access of one example, and measure the reads of the first few.

    Raises:
        UserError: for a model without a memory, or an example that does not exist
    """
    first = record_access(network, task, task.examples(split, [example]))[0]
    numbers = range(min(SEQUENCES, task.count(split)))
    accesses = record_access(network, task, task.examples(split, numbers))
    folder.mkdir(parents=True, exist_ok=True)
    access_png, paths_png = folder / "memory_access.png", folder / "path_lengths.png"
    draw_access(first, access_png, f"{title}, example {example}" if title else "")
    draw_paths_by_distance(_paths(accesses), paths_png, title)
    return Inspection(len(accesses), _metrics(accesses), [access_png, paths_png])


def _paths(accesses: list[Access]) -> dict[str, np.ndarray]:
    """Mean shortest paths by distance: of the model, and of one that reads at random."""
    steps = min(access.steps for access in accesses)
    source_TN = np.stack([access.source_T[:steps] for access in accesses], axis=1)
    cells = accesses[0].cells
    random = simulate("tardis", steps, cells, SIMULATIONS, np.random.default_rng(0))
    return {
        "this model": mean_by_distance(source_TN).length_TN,
        f"{cells} cells read at random": mean_by_distance(sources(*random)).length_TN,
    }


def _metrics(accesses: list[Access]) -> dict[str, float]:
    """Metrics of the memory's use, over all steps of all sequences."""
    source = np.concatenate([access.source_T for access in accesses])
    time = np.concatenate([np.arange(access.steps) for access in accesses])
    reached = source != NEVER
    used = [len(np.unique(access.read_T)) / access.cells for access in accesses]
    sure = [access.probability_TK[np.arange(access.steps), access.read_T] for access in accesses]
    distance = (time - source)[reached]
    often = np.bincount(distance, minlength=1)
    metrics = {
        "reads of an empty cell, %": 100 * float((~reached).mean()),
        "mean wormhole length": float(distance.mean()) if len(distance) else 0.0,
        "most frequent length": float(often.argmax()),
        "  its share of all wormholes, %": 100 * float(often.max() / max(1, len(distance))),
        "cells read in a sequence, %": 100 * float(np.mean(used)),
        "probability of the cell read": float(np.concatenate(sure).mean()),
    }
    for name in ("alpha", "beta"):
        gates = [getattr(access, f"{name}_T") for access in accesses]
        if gates[0] is not None:
            metrics[f"mean {name}"] = float(np.concatenate(gates).mean())
    return metrics
