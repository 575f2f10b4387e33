"""What is printed about a training before and after it, and its result."""

import shlex
from dataclasses import asdict
from typing import Any

import torch

from tardis_core.text import counted
from tardis_core.training import checkpoint
from tardis_core.training.loop import Trainer
from tardis_core.training.run_folder import RunFolder


def headline(trainer: Trainer) -> str:
    """What is trained, and on which data."""
    config, data = trainer.config, trainer.provenance
    parameters = sum(each.numel() for each in trainer.network.parameters())
    return (
        f"{config.task}: {config.system.replace(' ', ' with ')}, {trainer.backend} backend, "
        f"{parameters:,} parameters, scale {config.scale} (change with --scale), "
        f"seed {config.seed}, on {_place(trainer)}\n"
        f"data: {data.name}, {data.origin}" + _origin(trainer)
    )


def _origin(trainer: Trainer) -> str:
    """The weights of another run that it started with, on a line of their own."""
    about = trainer.started_from
    return f"\nstarted from {about['source']}, update {about['update']}" if about else ""


def _place(trainer: Trainer) -> str:
    if trainer.device.type != "cpu":
        return str(trainer.device)
    return f"cpu with {counted(torch.get_num_threads(), 'thread')}"


def report_result(trainer: Trainer, folder: RunFolder, data: list[str]) -> dict[str, Any]:
    """Evaluate the best weights on the test split, write and print the result.

    Args:
        data: the options of the command that name the data.
    """
    best = checkpoint.load(folder.best)
    trainer.network.load_state_dict(best["network"])
    result = _result(trainer, best)
    folder.write_result(result)
    metric = trainer.task.metric
    print(f"\n{'split':<12}{metric.name:>10}   {metric.unit}")
    for split in ("validation", "test"):
        print(f"{split:<12}{result[split][metric.name]:>10.4f}")
    for name, value in result["test"].items():
        if name != metric.name:
            print(f"{'test ' + name:<12}{value:>10.4f}")
    print(
        f"\nbest weights of update {best['update']}, one seed ({trainer.config.seed}), "
        f"data {trainer.provenance.name}, scale {trainer.config.scale}"
    )
    print(
        f"written to {folder.path}: config.json, metrics.csv, result.json, best.pt, checkpoint.pt"
    )
    again = ["python", "-m", "tardis_core.evaluate", str(folder.path), *data]
    print(f"evaluate: {shlex.join(again)}")
    return result


def _result(trainer: Trainer, best: dict[str, Any]) -> dict[str, Any]:
    return {
        "validation": trainer.evaluate("valid"),
        "test": trainer.evaluate("test"),
        "best_update": best["update"],
        "updates": trainer.update,
        "training_seconds": trainer.history[-1]["training_seconds"],
        "data": asdict(trainer.provenance),
        "backend": trainer.backend,
        "started_from": trainer.started_from,
        "config": trainer.config.to_dict(),
    }


def report_stop(trainer: Trainer, folder: RunFolder, options: list[str]) -> None:
    """Print where the training was interrupted, and the command that resumes it.

    Args:
        options: of that command, those that a checkpoint does not hold.
    """
    again = ["python", "-m", "tardis_core.train", "--resume", str(folder.path), *options]
    print(
        f"Stopped at update {trainer.update} of {trainer.config.training.updates}, saved. "
        f"Resume with:\n  {shlex.join(again)}"
    )
