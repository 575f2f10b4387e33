"""One trial: a training run in a Ray worker that reports and saves at every validation."""

import copy
import math
import resource
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from pyarrow import fs
from ray import tune

from orchestrator.search import FAILED, FINISHED, OBJECTIVE
from orchestrator.several_seeds import SeveralSeeds
from tardis_core.build import build_network
from tardis_core.config import Config, make_config
from tardis_core.errors import Diverged, UserError
from tardis_core.training import checkpoint
from tardis_core.training.loop import Trainer

Training = Trainer | SeveralSeeds
CHECKPOINT, BEST = "checkpoint.pt", "best.pt"
CHECKPOINT_FOLDER = "checkpoint_"  # followed by a number, as Ray calls them
NOTE = "note"  # what went wrong on the way and was mended, in a result


def trial_config(task: str, scale: str, seed: int, settings: dict[str, Any]) -> Config:
    """The resolved configuration of a trial from what the search proposed."""
    overrides = {key: value for key, value in settings.items() if "." in key}
    return make_config(
        task,
        settings.get("model", "tardis"),
        settings.get("estimator"),
        scale,
        settings.get("seed", seed),
        overrides,
    )


def train_trial(
    config: dict[str, Any],
    task: str,
    scale: str,
    seed: int,
    threads: int,
    seeds: int,
    judge: str,
    test: bool,
    retry_smaller_batch: bool,
    data: Any,
) -> None:
    """The trainable: made by `tune.with_parameters` from all but `config`.

    Args:
        seeds: with which it is trained, beginning with `seed`; more than one are judged together.
        judge: how.
        test: measure the best weights on the test split at the end. A search must not: what it
            can see it selects by.
        retry_smaller_batch: where memory runs out, compute the batch in twice as many parts.
    """
    torch.set_num_threads(threads)

    def begin(made: Config) -> Training:
        if seeds == 1:
            return Trainer(made, data, "auto")
        every = range(made.seed, made.seed + seeds)
        return SeveralSeeds(made, data, "auto", every, judge)

    try:
        made = trial_config(task, scale, seed, config["settings"])
        _fit(begin, made, test, retry_smaller_batch)
    except (Diverged, UserError, OutOfMemory) as error:
        # Trying again would end the same way: the trial fails alone, with its reason.
        tune.report({OBJECTIVE: float("nan"), FAILED: f"{type(error).__name__}: {error}"})


class OutOfMemory(RuntimeError):
    """The trial needs more memory than there is."""


def _fit(begin: Callable[[Config], Training], config: Config, test: bool, retry: bool) -> None:
    """Train; where memory runs out, and that is asked for, go on with the batch in more parts."""
    told = ""
    while True:
        try:
            return _run(begin(config), test, told)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            training = config.training
            told = (
                f"memory ran out at a peak of {peak_gigabytes():.2f} GB with a batch of "
                f"{training.batch} in {training.accumulate} part(s)"
            )
            parts = 2 * training.accumulate
            if not retry or parts > training.batch:
                hint = "lower training.batch" if retry else "see --retry-smaller-batch"
                raise OutOfMemory(f"{told}; {hint}") from error
        config = replace(config, training=replace(training, accumulate=parts))
        told += f"; went on with {parts}"
        torch.cuda.empty_cache()


def _is_out_of_memory(error: BaseException) -> bool:
    # On the CPU torch has no kind of error for it.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        "not enough memory" in str(error) or "can't allocate memory" in str(error)
    )


def peak_gigabytes() -> float:
    """The most memory that this process has had: of the GPU, or of the machine."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _run(trainer: Training, test: bool, told: str) -> None:
    best, note = _restore(trainer)
    note = "; ".join(each for each in (told, note) if each)
    _repeat(trainer, best, note)
    rows = trainer.history[:]  # a first report after a restart repeats what may not have arrived
    for row in trainer.run():
        if trainer.best_update == trainer.update:
            best = copy.deepcopy({**trainer.model_state(), "metric": trainer.best})
        if test and trainer.finished and best is not None:
            row |= _test(trainer, best)
        _report(trainer, [*rows, row], best, note, len(trainer.history))
        rows = []


def _repeat(trainer: Training, best: dict[str, Any] | None, note: str) -> None:
    """Report again what was measured after the report that Ray went back to.

    So the number of reports is again that of validations, by which trials are compared.
    """
    known, measured = _reports_known(), len(trainer.history)
    for length in range(known + 1, measured + 1):
        _report(trainer, trainer.history[:length], best, note, length)
    if trainer.finished and known >= measured:
        # Killed between its last report and its end: the result is known, and told once more.
        tune.report(_result(trainer, trainer.history, note, measured))


def _reports_known() -> int:
    """How many reports of this trial Ray knows: each came with a checkpoint, numbered from 0."""
    held = tune.get_checkpoint()
    return 0 if held is None else int(Path(held.path).name.removeprefix(CHECKPOINT_FOLDER)) + 1


def _test(trainer: Training, best: dict[str, Any]) -> dict[str, float]:
    """The best weights on the test split."""
    network = build_network(trainer.config, trainer.task.signature).to(trainer.device)
    network.load_state_dict(best["network"])
    measured = trainer.task.evaluate(network, "test")
    return {f"test_{name}": value for name, value in measured.items()}


def _restore(trainer: Training) -> tuple[dict[str, Any] | None, str]:
    """Go on from the newest whole checkpoint of this trial, if there is one.

    It may be newer than the one that Ray went back to, which may be gone.

    Returns:
        The best weights so far, and what there is to say about a checkpoint that is damaged.
    """
    held, damaged = tune.get_checkpoint(), []
    for each in [] if held is None else _beside(held):
        name = Path(each.path).name
        try:
            state, best = _read(each)
        except UserError:
            damaged.append(name)
            continue
        trainer.restore(state)
        note = f"{', '.join(damaged)} was damaged; went on from {name}" if damaged else ""
        return best, note
    note = f"{', '.join(damaged)} was damaged, and there was no other; began anew"
    return None, note if damaged else ""


def _beside(held: tune.Checkpoint) -> list[tune.Checkpoint]:
    """This checkpoint and those beside it, the newest first; those that were deleted are empty."""
    parent = str(held.path).rpartition("/")[0]
    filesystem = held.filesystem or fs.LocalFileSystem()
    found = filesystem.get_file_info(fs.FileSelector(parent, recursive=True))
    whole = {each.path.rpartition("/")[0] for each in found if each.base_name == CHECKPOINT}
    return [tune.Checkpoint(path, filesystem) for path in sorted(whole, reverse=True)]


def _read(held: tune.Checkpoint) -> tuple[dict[str, Any], dict[str, Any] | None]:
    with held.as_directory() as folder:
        state, path = checkpoint.load(Path(folder) / CHECKPOINT), Path(folder) / BEST
        return state, checkpoint.load(path) if path.exists() else None


def _report(
    trainer: Training,
    rows: list[dict[str, float]],
    best: dict[str, Any] | None,
    note: str,
    validations: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.save(Path(folder) / CHECKPOINT, trainer.state())
        if best is not None:
            checkpoint.save(Path(folder) / BEST, best)
        held = tune.Checkpoint.from_directory(folder)
        tune.report(_result(trainer, rows, note, validations), checkpoint=held)


def _result(
    trainer: Training, rows: list[dict[str, float]], note: str, validations: int
) -> dict[str, Any]:
    """What Ray is told after so many validations, which may have been made before."""
    metric = trainer.task.metric
    values = [row[f"valid_{metric.name}"] for row in trainer.history[:validations]]
    known = [value for value in values if not math.isnan(value)]
    best = (min if metric.better == "lower" else max)(known, default=float("nan"))
    finished = trainer.finished and validations == len(trainer.history)
    made_with = {
        "device": _name(trainer.device),
        "backend": trainer.backend,
        "peak_memory_gb": f"{peak_gigabytes():.2f}",
    }
    return {OBJECTIVE: best, FINISHED: finished, "rows": rows, NOTE: note, **made_with}


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
