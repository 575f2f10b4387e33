"""One trial: a training run in a Ray worker that reports and saves at every validation."""

import copy
import math
import resource
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from ray import tune

from orchestrator.execution.checkpoints import BEST, CHECKPOINT, checkpoints_of
from orchestrator.execution.search import FAILED, FINISHED, OBJECTIVE
from orchestrator.execution.seed_ensemble import SeveralSeeds
from orchestrator.planning.configs import trial_config
from tardis_core.build import build_network
from tardis_core.config import Config
from tardis_core.errors import Diverged, UserError
from tardis_core.training import checkpoint
from tardis_core.training.loop import Trainer

Training = Trainer | SeveralSeeds
REPORTS = "reports"  # in the metadata of a checkpoint: how many Ray had with it
WENT_ON_FROM = "went_on_from"  # how many validations were not made again, in a result
NOTE = "note"  # what went wrong on the way and was mended, in a result


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
    storage: str,
    data: Any,
) -> None:
    """The trainable: made by `tune.with_parameters` from all but `config`.

    Args:
        seeds: with which it is trained, beginning with `seed`; more than one are judged together.
        judge: how.
        test: measure the best weights on the test split at the end. A search must not: what it
            can see it selects by.
        retry_smaller_batch: where memory runs out, compute the batch in twice as many parts.
        storage: where the checkpoints of the sweep are, which may have been started before.
    """
    torch.set_num_threads(threads)

    def begin(made: Config) -> Training:
        if seeds == 1:
            return Trainer(made, data, "auto")
        every = range(made.seed, made.seed + seeds)
        return SeveralSeeds(made, data, "auto", every, judge)

    try:
        made = trial_config(task, scale, seed, config["settings"])
        attempt = Attempt(storage, config["number"], test)
        _fit(begin, made, attempt, retry_smaller_batch)
    except (Diverged, UserError, OutOfMemory) as error:
        # Trying again would end the same way: the trial fails alone, with its reason.
        tune.report({OBJECTIVE: float("nan"), FAILED: f"{type(error).__name__}: {error}"})


class Attempt(NamedTuple):
    """What a training has to know of the trial beside its configuration."""

    storage: str
    number: int
    test: bool


class OutOfMemory(RuntimeError):
    """The trial needs more memory than there is."""


def _fit(
    begin: Callable[[Config], Training], config: Config, attempt: Attempt, retry: bool
) -> None:
    """Train; where memory runs out, and that is asked for, go on with the batch in more parts."""
    told = ""
    while True:
        try:
            return _run(begin(config), attempt, told)
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


def _run(trainer: Training, attempt: Attempt, told: str) -> None:
    best, note = _restore(trainer, checkpoints_of(attempt.storage, attempt.number))
    report = Report(trainer, "; ".join(each for each in (told, note) if each))
    _repeat(report, best)
    rows = trainer.history[:]  # a first report after a restart repeats what may not have arrived
    for row in trainer.run():
        if trainer.best_update == trainer.update:
            best = copy.deepcopy({**trainer.model_state(), "metric": trainer.best})
        if attempt.test and trainer.finished and best is not None:
            row |= _test(trainer, best)
        report.save([*rows, row], best)
        rows = []


def _repeat(report: "Report", best: dict[str, Any] | None) -> None:
    """Report again what Ray does not know: it may have been measured for another driver.

    So the number of reports is again that of validations, by which trials are compared.
    """
    trainer, known = report.trainer, _reports_known()
    measured = len(trainer.history)
    for length in range(known + 1, measured):
        report.tell(trainer.history[length - 1 : length], length)
    if known < measured:
        report.save(trainer.history, best)
    elif trainer.finished:
        # Killed between its last report and its end: the result is known, and told once more.
        report.tell(trainer.history, measured)


def _reports_known() -> int:
    """How many reports of this trial Ray knows, which restarts it from one of its checkpoints."""
    held = tune.get_checkpoint()
    return 0 if held is None else int(held.get_metadata()[REPORTS])


def _test(trainer: Training, best: dict[str, Any]) -> dict[str, float]:
    """The best weights on the test split."""
    network = build_network(trainer.config, trainer.task.signature).to(trainer.device)
    network.load_state_dict(best["network"])
    measured = trainer.task.evaluate(network, "test")
    return {f"test_{name}": value for name, value in measured.items()}


def _restore(
    trainer: Training, checkpoints: Sequence[tune.Checkpoint]
) -> tuple[dict[str, Any] | None, str]:
    """Go on from the first checkpoint that is whole, if there is one.

    Returns:
        The best weights so far, and what there is to say about a checkpoint that is damaged.
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
        note = f"{', '.join(damaged)} was damaged; went on from {name}" if damaged else ""
        return best, note
    note = f"{', '.join(damaged)} was damaged, and there was no other; began anew"
    return None, note if damaged else ""


def _read(held: tune.Checkpoint) -> tuple[dict[str, Any], dict[str, Any] | None]:
    with held.as_directory() as folder:
        state, path = checkpoint.load(Path(folder) / CHECKPOINT), Path(folder) / BEST
        return state, checkpoint.load(path) if path.exists() else None


class Report:
    """Tells Ray of one training."""

    def __init__(self, trainer: Training, note: str) -> None:
        self.trainer, self._note = trainer, note
        self._went_on_from = len(trainer.history)

    def save(self, rows: list[dict[str, float]], best: dict[str, Any] | None) -> None:
        """Tell of the last validation, with a checkpoint."""
        reports = len(self.trainer.history)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint.save(Path(folder) / CHECKPOINT, self.trainer.state())
            if best is not None:
                checkpoint.save(Path(folder) / BEST, best)
            held = tune.Checkpoint.from_directory(folder)
            held.set_metadata({REPORTS: reports})
            tune.report(self._result(rows, reports), checkpoint=held)

    def tell(self, rows: list[dict[str, float]], validations: int) -> None:
        """Tell how it was after so many validations, which were made before."""
        tune.report(self._result(rows, validations))

    def _result(self, rows: list[dict[str, float]], validations: int) -> dict[str, Any]:
        trainer, metric = self.trainer, self.trainer.task.metric
        values = [row[f"valid_{metric.name}"] for row in trainer.history[:validations]]
        known = [value for value in values if not math.isnan(value)]
        best = (min if metric.better == "lower" else max)(known, default=float("nan"))
        return {
            OBJECTIVE: best,
            FINISHED: trainer.finished and validations == len(trainer.history),
            "rows": rows,
            NOTE: self._note,
            WENT_ON_FROM: self._went_on_from,
            "device": _name(trainer.device),
            "backend": trainer.backend,
            "peak_memory_gb": f"{peak_gigabytes():.2f}",
        }


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
