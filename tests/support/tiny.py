"""Runs that take a fraction of a second, and comparisons of repeated runs."""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from tardis_core.config import Config, make_config

TIMING = ("symbols_per_second", "training_seconds")
SIZES = {
    "model.hidden": 8,
    "training.updates": 12,
    "training.evaluate_every": 4,
    "training.batch": 4,
}
MEMORY = {"memory.cells": 4, "memory.content": 5, "model.reset_gates": True}
OF_TASK: dict[str, dict[str, Any]] = {
    "copy": {"task.longest": 3, "task.valid_sequences": 8, "task.test_sequences": 8},
    "recall": {"task.longest": 3, "task.valid_sequences": 8, "task.test_sequences": 8},
    "repeat-copy": {"task.longest": 2, "task.repeats": 2, "task.valid_sequences": 8},
    "priority-sort": {"task.longest": 3, "task.valid_sequences": 8, "task.test_sequences": 8},
    "mqar": {"task.longest": 2, "task.steps": 8, "task.valid_sequences": 8},
    "selective-copy": {"task.longest": 2, "task.steps": 4, "task.valid_sequences": 8},
    "adding": {"task.longest": 4, "task.valid_sequences": 8, "task.test_sequences": 8},
    "ptb": {"task.length": 5, "task.streams": 4, "task.evaluation_symbols": 80},
    "snli": {"task.evaluation_pairs": 8},
    "strokes": {
        "task.digits": 1,
        "task.train_sequences": 20,
        "task.valid_sequences": 4,
        "task.test_sequences": 4,
    },
}


def settings(task: str = "copy", model: str = "tardis") -> dict[str, Any]:
    """Overrides for a tiny run."""
    return SIZES | OF_TASK[task] | (MEMORY if model == "tardis" else {})


def tiny(
    task: str = "copy",
    model: str = "tardis",
    estimator: str | None = None,
    seed: int = 0,
    **training: Any,
) -> Config:
    """Configuration of a tiny run; keywords are settings of the section `training`."""
    more = {f"training.{name}": value for name, value in training.items()}
    return make_config(task, model, estimator, "smoke", seed, settings(task, model) | more)


def command_line(overrides: Mapping[str, Any], task: str = "copy") -> list[str]:
    """The arguments of `python -m tardis_core.train` for a tiny run."""
    every = settings(task) | overrides
    pairs = [part for key, value in every.items() for part in ("--set", f"{key}={value}")]
    return [task, "--scale", "smoke", *pairs]


def untimed(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows without measured times."""
    return [{name: value for name, value in row.items() if name not in TIMING} for row in rows]


def read_csv(text: str) -> list[dict[str, str]]:
    """The rows of a metrics.csv."""
    return list(csv.DictReader(io.StringIO(text)))


def same(one: Any, other: Any) -> bool:
    """Whether two nested structures of dicts, lists, tensors and values are equal bit for bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def timeless(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a trainer without measured times."""
    rest = {name: value for name, value in state.items() if name not in ("format", "seconds")}
    rest["sums"] = {name: value for name, value in state["sums"].items() if name != "seconds"}
    rest["history"] = untimed(state["history"])
    return rest
