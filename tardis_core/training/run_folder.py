"""The folder of a run: its configuration, its checkpoints, its metrics and its result.

config.json     the resolved configuration and the data, for people
checkpoint.pt   everything needed to resume
best.pt         the weights with the best validation metric
metrics.csv     one row per validation
result.json     validation and test metric, once the run is finished
result-N.json   the same after N updates, of a run that was trained longer
"""

import csv
import io
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from tardis_core.build import build_network
from tardis_core.config import Config, config_from_dict
from tardis_core.data.dataset import Provenance
from tardis_core.data.files import write_atomically
from tardis_core.errors import UserError
from tardis_core.models.network import Network
from tardis_core.tasks.base import Signature
from tardis_core.text import error_line
from tardis_core.training import checkpoint
from tardis_core.training.loop import Row, Trainer


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint, self.best = path / "checkpoint.pt", path / "best.pt"
        self.result = path / "result.json"

    @classmethod
    def create(cls, path: Path) -> "RunFolder":
        """A new folder; one that holds a run already is left alone."""
        folder = cls(path)
        if os.path.exists(folder.checkpoint):
            raise UserError(
                f"{path} already holds a run; resume it with --resume {path}, "
                "or choose another folder with --out"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / "config.json").touch()
        except OSError as error:
            raise UserError(
                f"--out must be a folder that can be written, not {path} ({error})"
            ) from error
        return folder

    @classmethod
    def reopen(cls, path: Path, trainer: Trainer) -> "RunFolder":
        """The folder of a run that stopped, however it stopped: adjusted to its checkpoint."""
        folder = cls(path)
        for abandoned in path.glob(".*.part"):
            abandoned.unlink(missing_ok=True)
        folder._write_metrics(trainer)
        return folder

    def lengthen(self, trainer: Trainer, updates: int) -> None:
        """Note at once that the run gets more updates; the result of the shorter one is kept.

        Args:
            updates: that it had before.
        """
        self.describe(trainer)
        self.save(trainer)
        if self.result.exists():
            self.result.rename(self.path / f"result-{updates}.json")

    def save(self, trainer: Trainer) -> None:
        """Write the checkpoint, and the metrics that belong to it."""
        if trainer.best is not None and trainer.best_update == trainer.update:
            checkpoint.save(self.best, {**trainer.model_state(), "metric": trainer.best})
        checkpoint.save(self.checkpoint, trainer.state())
        self._write_metrics(trainer)

    def _write_metrics(self, trainer: Trainer) -> None:
        """Anew from the checkpoint's own history: no row is ever lost, or there twice."""
        write_atomically(self.path / "metrics.csv", as_csv(trainer.history).encode())

    def describe(self, trainer: Trainer) -> None:
        """Write what the run is, before it starts."""
        about = {
            "config": trainer.config.to_dict(),
            "data": asdict(trainer.provenance),
            "backend": trainer.backend,
            "threads": torch.get_num_threads(),
            "started_from": trainer.started_from,
        }
        write_atomically(self.path / "config.json", _json(about))

    @property
    def threads(self) -> int | None:
        """The number of threads that the run began with; None if that is not known."""
        try:
            count = json.loads((self.path / "config.json").read_bytes()).get("threads")
        except (OSError, ValueError, AttributeError):
            return None
        return count if isinstance(count, int) and count > 0 else None

    def write_result(self, result: dict[str, Any]) -> None:
        """Write the result of a finished run."""
        write_atomically(self.result, _json(result))


def load_checkpoint(path: Path) -> tuple[dict[str, Any], Config]:
    """A checkpoint file, or the one in the folder of a run, with its configuration."""
    values = checkpoint.load(path / "checkpoint.pt" if os.path.isdir(path) else path)
    try:
        return values, config_from_dict(values["config"])
    except (KeyError, TypeError, UserError) as error:
        raise UserError(
            f"the checkpoint {path} does not fit this version of the program: {error}"
        ) from error


def load_network(values: dict[str, Any], config: Config, path: Path) -> Network:
    """The network of a checkpoint with its trained weights."""
    try:
        network = build_network(config, Signature(**values["signature"]))
        network.load_state_dict(values["network"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise UserError(
            f"{path} holds no weights of its own configuration "
            f"({error_line(error, limit=120)}); give the folder of a run or its best.pt"
        ) from error
    return network


def check_data(run: Path, recorded: dict[str, Any], actual: Provenance) -> None:
    """Refuse other data than the run was trained on, wherever its files may lie now."""
    name, checksum = recorded.get("name"), str(recorded.get("sha256"))
    if (name, checksum) != (actual.name, actual.sha256):
        raise UserError(
            f"the run {run} was trained on {name} ({checksum[:12]}), not on "
            f"{actual.name} ({actual.sha256[:12]}); give that data with --data-dir or --data"
        )


def as_csv(rows: list[Row]) -> str:
    """Rows as CSV, with the columns in the order in which they first occur."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _json(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=2) + "\n").encode()
