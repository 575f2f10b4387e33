"""One trial: a training run in a Ray worker, with a result and a checkpoint per validation."""

import copy
import os
import resource
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import ray
import torch
from ray import tune

from orchestrator.execution.checkpoints import BEST, CHECKPOINT, checkpoints_of
from orchestrator.execution.result import (
    FAILED,
    FINISHED,
    NOTE,
    OBJECTIVE,
    REFUSED,
    RESUMED_FROM,
    ROWS,
    SEED_VALUES,
)
from orchestrator.execution.seed_ensemble import SeedEnsemble
from orchestrator.planning.configs import trial_config
from tardis_core.build import build_network
from tardis_core.config import Config
from tardis_core.errors import Diverged, UserError
from tardis_core.plugins import request_source
from tardis_core.training import checkpoint, precision
from tardis_core.training.best import best_row, phase_start
from tardis_core.training.loop import Trainer

Training = Trainer | SeedEnsemble
REPORTS = "reports"  # in the metadata of a checkpoint: how many results Ray had with it


def train_trial(
    config: dict[str, Any],
    task: str,
    scale: str,
    seed: int,
    threads: int,
    seeds: int,
    aggregate: str,
    race: bool,
    test: bool,
    retry_smaller_batch: bool,
    storage: str,
    plugins: Mapping[str, str],
    data: Any,
) -> None:
    """The function that Ray trains; `tune.with_parameters` binds all arguments but `config`.

    Args:
        config: the number of the trial, and the settings that were proposed for it.
        seeds: how many seeds to train, starting with `seed`; several are combined by `aggregate`.
        race: train the first seed alone; the driver decides whether the others follow.
        test: measure the best weights on the test split at the end. A search must not: it would
            select by what it can see.
        retry_smaller_batch: if memory runs out, compute the batch in twice as many parts.
        storage: where the sweep keeps its checkpoints, possibly with some of this trial.
        plugins: the source of files that register parts of the user's own, by name.
    """
    for name, source in plugins.items():
        request_source(name, source)
    torch.set_num_threads(threads)
    device = assigned_device()

    def start(config: Config) -> Training:
        if seeds == 1:
            return Trainer(config, data, device)
        all_seeds = range(config.seed, config.seed + seeds)
        return SeedEnsemble(config, data, device, all_seeds, aggregate, race)

    try:
        if config.get(REFUSED):
            raise UserError(config[REFUSED])
        resolved = trial_config(task, scale, seed, config["settings"])
        attempt = Attempt(storage, config["number"], test)
        _fit(start, resolved, attempt, retry_smaller_batch)
    except (Diverged, UserError, OutOfMemory) as error:
        # A retry would end the same way: only this trial fails, with its reason.
        tune.report({OBJECTIVE: float("nan"), FAILED: f"{type(error).__name__}: {error}"})


def assigned_device() -> str:
    """The device that Ray has assigned to this process: the first of its GPUs, or the CPU."""
    if ray.is_initialized() and ray.get_runtime_context().get_accelerator_ids()["GPU"]:
        return "mps" if torch.backends.mps.is_available() else "cuda:0"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a cluster that others started may show all GPUs
    return "cpu"


class Attempt(NamedTuple):
    """What a training run needs to know of its trial besides the configuration."""

    storage: str
    number: int
    test: bool


class OutOfMemory(RuntimeError):
    """The trial needs more memory than the machine has."""


def _fit(
    start: Callable[[Config], Training], config: Config, attempt: Attempt, retry: bool
) -> None:
    """Train; if memory runs out and `retry` is set, continue with the batch in more parts."""
    note = ""
    while True:
        try:
            return _run(start(config), attempt, note)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            training = config.training
            note = (
                f"memory ran out at a peak of {peak_gigabytes():.2f} GB with a batch of "
                f"{training.batch} in {training.accumulate} part(s)"
            )
            parts = 2 * training.accumulate
            if not retry or parts > training.batch:
                hint = "lower training.batch" if retry else "see --retry-smaller-batch"
                raise OutOfMemory(f"{note}; {hint}") from error
        config = replace(config, training=replace(training, accumulate=parts))
        note += f"; continued with {parts}"
        torch.cuda.empty_cache()


def _is_out_of_memory(error: BaseException) -> bool:
    # On the CPU torch has no error class for it.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        "not enough memory" in str(error) or "can't allocate memory" in str(error)
    )


def peak_gigabytes() -> float:
    """The peak memory of this process: on the GPU if there is one."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _run(trainer: Training, attempt: Attempt, note: str) -> None:
    best, damage = _restore(trainer, checkpoints_of(attempt.storage, attempt.number))
    report = Report(trainer, "; ".join(each for each in (note, damage) if each))
    _repeat(report, best)
    rows = trainer.history[:]  # the first result after a restart repeats what may have been lost
    for row in trainer.run():
        if trainer.best_update == trainer.update:
            best = copy.deepcopy({**trainer.model_state(), "metric": trainer.best})
        if attempt.test and trainer.finished and best is not None:
            row |= _test(trainer, best)
        report.save([*rows, row], best)
        rows = []


def _repeat(report: "Report", best: dict[str, Any] | None) -> None:
    """Send the results that Ray lacks because they were measured for another driver.

    Trials are compared by the number of their results, so that it must be that of validations.
    """
    trainer, received = report.trainer, _results_received()
    measured = len(trainer.history)
    for length in range(received + 1, measured):
        report.send(trainer.history[length - 1 : length], length)
    if received < measured:
        report.save(trainer.history, best)
    elif trainer.finished:
        # Killed between its last result and its end: the last result is sent once more.
        report.send(trainer.history, measured)


def _results_received() -> int:
    """How many results Ray has of this trial, if it restarts it from one of its checkpoints."""
    latest = tune.get_checkpoint()
    return 0 if latest is None else int(latest.get_metadata()[REPORTS])


def _test(trainer: Training, best: dict[str, Any]) -> dict[str, float]:
    """The metrics of the best weights on the test split."""
    network = build_network(trainer.config, trainer.task.signature).to(trainer.device)
    network.load_state_dict(best["network"])
    with precision.products("float32"):
        metrics = trainer.task.evaluate(network, "test")
    return {f"test_{name}": value for name, value in metrics.items()}


def _restore(
    trainer: Training, checkpoints: Sequence[tune.Checkpoint]
) -> tuple[dict[str, Any] | None, str]:
    """Resume from the first checkpoint that is intact, if there is one.

    Returns:
        The best weights so far, and a note about damaged checkpoints.
    """
    damaged = []
    for each in checkpoints:
        name = Path(each.path).name
        try:
            state, best = _read(each)
        except UserError:
            damaged.append(name)
            continue
        trainer.restore(state)
        note = f"{', '.join(damaged)} was damaged; resumed from {name}" if damaged else ""
        return best, note
    note = f"{', '.join(damaged)} was damaged, and there was no other; started over"
    return None, note if damaged else ""


def _read(saved: tune.Checkpoint) -> tuple[dict[str, Any], dict[str, Any] | None]:
    with saved.as_directory() as folder:
        state, best = checkpoint.load(Path(folder) / CHECKPOINT), Path(folder) / BEST
        return state, checkpoint.load(best) if best.exists() else None


class Report:
    """Sends the results of one training run to Ray."""

    def __init__(self, trainer: Training, note: str) -> None:
        self.trainer, self._note = trainer, note
        self._resumed_from = len(trainer.history)

    def save(self, rows: list[dict[str, float]], best: dict[str, Any] | None) -> None:
        """Send the result of the last validation, with a checkpoint."""
        reports = len(self.trainer.history)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint.save(Path(folder) / CHECKPOINT, self.trainer.state())
            if best is not None:
                checkpoint.save(Path(folder) / BEST, best)
            saved = tune.Checkpoint.from_directory(folder)
            saved.set_metadata({REPORTS: reports})
            tune.report(self._result(rows, reports), checkpoint=saved)

    def send(self, rows: list[dict[str, float]], validations: int) -> None:
        """Send the result as it was after this many validations."""
        tune.report(self._result(rows, validations))

    def _result(self, rows: list[dict[str, float]], validations: int) -> dict[str, Any]:
        trainer, metric = self.trainer, self.trainer.task.metric
        history, key = trainer.history[:validations], f"valid_{metric.name}"
        several = trainer if isinstance(trainer, SeedEnsemble) else None
        start = several.phase_start if several else phase_start(trainer.config.settings())
        best = best_row(history, key, metric.better, start)
        return {
            OBJECTIVE: float("nan") if best is None else best[key],
            FINISHED: trainer.finished and validations == len(trainer.history),
            ROWS: rows,
            NOTE: self._note,
            RESUMED_FROM: self._resumed_from,
            SEED_VALUES: several.seed_values(validations) if several else [],
            "device": _name(trainer.device),
            "backend": trainer.backend,
            "parameters": str(_count(trainer)),
            "peak_memory_gb": f"{peak_gigabytes():.2f}",
        }


def _count(training: Training) -> int:
    """The number of parameters of a network; all seeds of a trial have the same."""
    trainer = training.trainers[0] if isinstance(training, SeedEnsemble) else training
    return sum(each.numel() for each in trainer.network.parameters())


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
