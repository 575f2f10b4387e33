"""One training from its options to its result: what `python -m tardis_core.train` does."""

import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from tqdm import tqdm

from tardis_core import threads
from tardis_core.build import load_data
from tardis_core.commands import data_options
from tardis_core.config import Config, lengthened, make_config
from tardis_core.data.files import check_source, data_dir
from tardis_core.errors import Diverged, UserError
from tardis_core.registry import TASK_NAMES
from tardis_core.start_from import Start, load_start
from tardis_core.stopping import Interrupted, stop_signals
from tardis_core.text import counted, duration, error_line
from tardis_core.training import checkpoint
from tardis_core.training.loop import Row, Trainer
from tardis_core.training.run_folder import RunFolder, check_data, load_checkpoint
from tardis_core.training.schedule import FOLLOW_LENGTH, learning_rate

UPDATES = "training.updates"  # the only setting that may change when a run is resumed
LONGEST_SILENCE = 60  # seconds between two lines of a training without a terminal


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """The options of a training; the words of the command line with underscores."""

    task: str | None = None
    model: str | None = None  # None: tardis
    estimator: str | None = None  # None: gumbel, where the model makes discrete choices
    scale: str | None = None  # None: small
    set: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None  # None: 0
    out: str | None = None  # None: a name in runs/
    resume: str | None = None
    start_from: str | None = None  # a run whose weights and settings this one starts with
    tensorboard: bool = False
    device: str = "auto"
    data_dir: str | None = None
    data: str = "auto"

    def config(self) -> Config:
        """The configuration that they ask for, without a run to start from."""
        if self.task is None:
            raise UserError(f"name a task: {', '.join(TASK_NAMES.all())}; or --resume a run")
        return make_config(
            self.task,
            self.model or "tardis",
            self.estimator,
            self.scale or "small",
            self.seed or 0,
            self.set,
        )


class Observer(Protocol):
    """Follows a training, for example to record it elsewhere."""

    def started(self, trainer: Trainer, folder: Path) -> None:
        """The training starts or is resumed."""

    def validated(self, rows: Sequence[Row]) -> None:
        """What was measured; the rows of before first, if the training is resumed."""

    def ended(self, result: Mapping[str, Any] | None) -> None:
        """The training has ended; None if it was interrupted or failed."""


class TrainingRun(NamedTuple):
    """What a training has left behind."""

    folder: Path
    config: Config
    result: dict[str, Any] | None  # as in result.json; None if it was interrupted

    @property
    def finished(self) -> bool:
        """Whether it was trained to its end."""
        return self.result is not None


def train(options: TrainOptions, observers: Sequence[Observer] = ()) -> TrainingRun:
    """Train or resume a run, and print its progress and its result."""
    torch.set_num_threads(_recorded_threads(options) or threads.thread_count())
    trainer, folder = _resumed(options) if options.resume else _new(options)
    print(_headline(trainer), flush=True)
    if options.tensorboard:
        from tardis_core.training.tensorboard import TensorBoard

        observers = (*observers, TensorBoard())
    for each in observers:
        each.started(trainer, folder.path)
        each.validated(trainer.history)
    result = None
    try:
        if _train(trainer, folder, observers):
            result = _report(trainer, folder, data_options(options.data_dir, options.data))
        else:
            print(
                f"Stopped at update {trainer.update} of {trainer.config.training.updates}, saved. "
                f"Resume with:\n  {_resume_command(folder, options)}"
            )
    finally:
        for each in observers:
            each.ended(result)
    return TrainingRun(folder.path, trainer.config, result)


def _recorded_threads(options: TrainOptions) -> int | None:
    """The number of threads of a run that is resumed: the last digits of sums depend on it."""
    path = Path(options.resume or "")
    folder = RunFolder(path if os.path.isdir(path) else path.parent)
    return folder.threads if options.resume and threads.NUMBER not in os.environ else None


def print_settings(config: Config) -> None:
    """One line per setting: its value and what it means."""
    print(f"{config.task}, {config.system}, scale {config.scale}:")
    assigned = {key: f"{key}={value}" for key, value in config.settings().items()}
    width = max(map(len, assigned.values()))
    for key, text in config.help().items():
        print(f"  {assigned[key]:<{width}}  {text}")


def _new(options: TrainOptions) -> tuple[Trainer, RunFolder]:
    start = _start(options) if options.start_from else None
    config = start.changed(options.set, options.seed) if start else options.config()
    trainer = Trainer(config, _data(options, config), options.device)
    if start:
        start.give_weights(trainer)
    folder = RunFolder.create(Path(options.out) if options.out else _free_folder(config))
    folder.describe(trainer)
    folder.save(trainer)
    return trainer, folder


def _start(options: TrainOptions) -> Start:
    path = Path(options.start_from or "")
    start = load_start(path)
    _check_names(options, start.config, path, ("task", "model", "estimator", "scale"))
    return start


def _check_names(options: TrainOptions, config: Config, path: Path, names: Iterable[str]) -> None:
    """Raise `UserError` for options that contradict the run that they continue or start from."""
    for name in names:
        asked, has = getattr(options, name), getattr(config, name)
        if asked not in (None, has):
            raise UserError(
                f"the checkpoint in {path} is of {name} {has!r}, not {asked!r}; "
                f"leave {name} out, or start a new run"
            )


def _data(options: TrainOptions, config: Config) -> Any:
    """The data of the task; a task that makes its own is as strict about the options."""
    check_source(options.data)
    if options.data_dir:
        data_dir(options.data_dir)
    return load_data(config, options.data_dir, options.data)


def _free_folder(config: Config) -> Path:
    """runs/copy-tardis-gumbel-small-seed0, or with -2, -3 ... if that is taken."""
    name = "-".join([config.task, *config.system.split(), config.scale, f"seed{config.seed}"])
    path, number = Path("runs") / name, 1
    while path.exists():
        number += 1
        path = Path("runs") / f"{name}-{number}"
    return path


def _resumed(options: TrainOptions) -> tuple[Trainer, RunFolder]:
    assert options.resume is not None
    path = Path(options.resume)
    values, config = load_checkpoint(path)
    _check_names(options, config, path, ("task", "model", "estimator", "scale", "seed"))
    if options.out or options.start_from or options.set.keys() - {UPDATES}:
        raise UserError(
            "--resume continues a run as it is: leave out --out and --start-from, and --set all "
            f"but {UPDATES}"
        )
    longer = lengthened(config, options.set[UPDATES]) if options.set else config
    trainer = Trainer(longer, _data(options, longer), options.device)
    _restore(trainer, values, path)
    if options.set:
        _check_longer(trainer, config)
    folder = RunFolder.reopen(path if path.is_dir() else path.parent, trainer)
    if options.set:
        folder.lengthen(trainer, config.training.updates)
        print(_new_length(trainer, config), flush=True)
    return trainer, folder


def _check_longer(trainer: Trainer, before: Config) -> None:
    """Raise `UserError` if the new number of updates leaves nothing to train."""
    updates, patience = trainer.config.training.updates, trainer.config.training.patience
    if updates <= trainer.update:
        raise UserError(
            f"{UPDATES} must be more than the {trainer.update} updates that the run has done, "
            f"not {updates}"
        )
    if trainer.finished:
        raise UserError(
            f"the run was ended by training.patience={patience} after {trainer.update} of "
            f"{before.training.updates} updates; more updates do not continue it"
        )


def _new_length(trainer: Trainer, before: Config) -> str:
    """What a new number of updates does to the schedules, in one sentence."""
    done, training = trainer.update, trainer.config.training
    lengths = (before.training, training)
    rates = [learning_rate(min(done, each.updates - 1), each) for each in lengths]
    return (
        f"from update {done} to {training.updates} instead of {before.training.updates}: "
        f"{FOLLOW_LENGTH}; the learning rate is {rates[1]:.3g} now, where it was {rates[0]:.3g}"
    )


def _restore(trainer: Trainer, values: dict[str, Any], path: Path) -> None:
    try:
        check_data(path, values["provenance"], trainer.provenance)
        trainer.restore(values)
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = error_line(error, limit=120)
        raise UserError(
            f"{path} cannot be resumed: it holds no whole run of this version of the program "
            f"({type(error).__name__}: {reason}); give the folder of a run, or start a new one"
        ) from error


def _headline(trainer: Trainer) -> str:
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


class _Interrupt:
    """The first signal asks the loop to stop, the second stops at once."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> None:
        if self.asked:
            raise Interrupted
        self.asked = True
        print("stopping, saving ...", flush=True)


def _train(trainer: Trainer, folder: RunFolder, observers: Sequence[Observer]) -> bool:
    """Train to the end; False if it was interrupted and saved."""
    total, lines, latest = trainer.config.training.updates, _Lines(trainer), ""
    terminal = sys.stderr.isatty()
    bar = tqdm(total=total, initial=trainer.update, unit="update", disable=not terminal)

    def on_update(loss: float) -> None:
        bar.update()
        bar.set_postfix_str(f"loss {loss:.4f}{latest}", refresh=False)
        if not terminal and lines.due and not trainer.validation_due:
            lines.print(loss)

    interrupt = _Interrupt()
    with bar, stop_signals.listening(), stop_signals.reacting(interrupt):
        try:
            for row in trainer.run(on_update, lambda: interrupt.asked):
                folder.save(trainer)
                for each in observers:
                    each.validated([row])
                measured = (
                    f"{_metric_text(trainer, row)}  {row['symbols_per_second']:,.0f} symbols/s"
                )
                latest = f", {measured.replace('  ', ', ')}"
                if not terminal:
                    lines.print(row["loss"], measured)
        except Diverged as error:
            raise Diverged(f"{error}; the last good checkpoint is {folder.checkpoint}") from error
        if interrupt.asked and not trainer.finished:
            folder.save(trainer)
            return False
    return True


def _metric_text(trainer: Trainer, row: Row) -> str:
    name = trainer.task.metric.name
    return f"valid {name} {row[f'valid_{name}']:.4f}"


class _Lines:
    """Progress without a terminal: one line per validation, and at least one per minute."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer, self._start = trainer, trainer.update
        self._started = self._printed = time.perf_counter()

    @property
    def due(self) -> bool:
        """Whether nothing has been printed for a minute."""
        return time.perf_counter() - self._printed >= LONGEST_SILENCE

    def print(self, loss: float, measured: str = "") -> None:
        """Print the state of the training, with what a validation measured."""
        self._printed = time.perf_counter()
        update, total = self._trainer.update, self._trainer.config.training.updates
        pace = (self._printed - self._started) / max(1, update - self._start)
        words = [f"update {update:>6}/{total}", f"loss {loss:.4f}", measured]
        words.append(f"{duration(pace * (total - update))} left")
        print("  ".join(filter(None, words)), flush=True)


def _report(trainer: Trainer, folder: RunFolder, data: list[str]) -> dict[str, Any]:
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


def _resume_command(folder: RunFolder, options: TrainOptions) -> str:
    """With the options that a checkpoint does not hold, where they were given."""
    words = ["python", "-m", "tardis_core.train", "--resume", str(folder.path)]
    if options.device != "auto":
        words += ["--device", options.device]
    return shlex.join([*words, *data_options(options.data_dir, options.data)])
