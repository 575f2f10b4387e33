"""Trainings of a reproduction: in its folder, and continued where an earlier attempt stopped."""

from pathlib import Path
from typing import Any

from orchestrator.paper.base import Request
from tardis_core.config import Config
from tardis_core.models.network import Network
from tardis_core.training.loop import Trainer
from tardis_core.training.run_folder import RunFolder, load_checkpoint, load_network


def trained(name: str, config: Config, data: Any, request: Request) -> Path:
    """The folder of a finished training: new, continued, or found finished."""
    path = request.folder / "runs" / name
    trainer = Trainer(config, data, request.device)
    if (path / "checkpoint.pt").is_file():
        trainer.restore(load_checkpoint(path)[0])
        folder = RunFolder.reopen(path, trainer)
    else:
        folder = RunFolder.create(path)
        folder.describe(trainer)
        folder.save(trainer)
    metric = f"valid_{trainer.task.metric.name}"
    for row in trainer.run():
        folder.save(trainer)
        progress = f"{trainer.update}/{config.training.updates}"
        print(f"  {name}: update {progress}, {metric} {row[metric]:.4f}", flush=True)
    return path


def best_network(folder: Path) -> tuple[Network, Config]:
    """The network with the best validation, and its configuration."""
    values, config = load_checkpoint(folder / "best.pt")
    return load_network(values, config, folder / "best.pt"), config
