"""One training from its options to its result: what `python -m tardis_core.train` does.

Here are the options, and what they decide: a new run, one with the weights of another, or one that
is resumed.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tardis_core import threads
from tardis_core.build import load_data
from tardis_core.commands import data_options
from tardis_core.config import Config, lengthened, make_config
from tardis_core.data.files import check_source, data_dir
from tardis_core.errors import UserError
from tardis_core.registry import TASK_NAMES
from tardis_core.start_from import Start, load_start
from tardis_core.text import error_line
from tardis_core.train_progress import Observer, train_to_end
from tardis_core.train_report import headline, report_result, report_stop
from tardis_core.training.loop import Trainer
from tardis_core.training.run_folder import RunFolder, check_data, load_checkpoint
from tardis_core.training.schedule import FOLLOW_LENGTH, learning_rate

UPDATES = "training.updates"  # the only setting that may change when a run is resumed


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
    print(headline(trainer), flush=True)
    if options.tensorboard:
        from tardis_core.training.tensorboard import TensorBoard

        observers = (*observers, TensorBoard())
    for each in observers:
        each.started(trainer, folder.path)
        each.validated(trainer.history)
    data = data_options(options.data_dir, options.data)
    result = None
    try:
        if train_to_end(trainer, folder, observers):
            result = report_result(trainer, folder, data)
        else:
            device = [] if options.device == "auto" else ["--device", options.device]
            report_stop(trainer, folder, [*device, *data])
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
