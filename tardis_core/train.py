"""Train a model on a task: `python -m tardis_core.train copy`."""

import argparse
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from tqdm import tqdm

from tardis_core.build import load_data
from tardis_core.cli import (
    EXIT_INTERRUPTED,
    Parser,
    command,
    data_parent,
    device_parent,
    setting,
)
from tardis_core.commands import data_options
from tardis_core.config import Config, make_config
from tardis_core.data.files import check_source, data_dir
from tardis_core.errors import Diverged, UserError
from tardis_core.estimators.base import ESTIMATORS
from tardis_core.models.base import MODELS
from tardis_core.scales import SCALES
from tardis_core.tasks.base import TASKS
from tardis_core.text import duration, error_line
from tardis_core.training import checkpoint
from tardis_core.training.loop import Row, Trainer
from tardis_core.training.run_folder import RunFolder, check_data, load_checkpoint

LONGEST_SILENCE = 60  # seconds between two lines of a training without a terminal
EXAMPLES = """
examples:
  python -m tardis_core.train copy                              TARDIS with Gumbel-softmax
  python -m tardis_core.train ptb --model lstm --scale smoke    the baseline, in a minute
  python -m tardis_core.train recall --estimator reinforce --set estimator.gamma=0.9
  python -m tardis_core.train --resume runs/copy-tardis-gumbel-small-seed0
  python -m tardis_core.train copy --set help                   all settings with their values
"""


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(
        prog="python -m tardis_core.train",
        description=__doc__,
        epilog=EXAMPLES,
        parents=[device_parent(), data_parent()],
    )
    parser.add_argument("task", nargs="?", help=f"one of: {', '.join(TASKS.names())}")
    parser.add_argument("--model", help=f"one of: {', '.join(MODELS.names())} (default: tardis)")
    parser.add_argument(
        "--estimator",
        help="how the gradient passes the discrete reads: "
        f"{', '.join(ESTIMATORS.names())} (default: gumbel)",
    )
    parser.add_argument(
        "--scale",
        help=f"sizes and budget: {', '.join(SCALES)}; smoke takes about a minute, small fits a "
        "laptop, paper has the paper's sizes (default: small)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting, repeatable; `--set help` lists all of them",
    )
    parser.add_argument(
        "--seed", type=int, help="seed of weights, noise and data order (default: 0)"
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: a name in runs/)")
    parser.add_argument("--resume", metavar="DIR", help="resume the run in this folder")
    return parser


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Train or resume a run, and print its result."""
    options = parser().parse_args(arguments)
    if options.resume:
        trainer, folder = _resumed(options)
    else:
        config = _config(options)
        if "help" in options.set:
            return _print_settings(config)
        trainer, folder = _new(options, config)
    print(_headline(trainer), flush=True)
    if not _train(trainer, folder):
        print(
            f"Stopped at update {trainer.update} of {trainer.config.training.updates}, saved. "
            f"Resume with:\n  {_resume_command(folder, options)}"
        )
        return EXIT_INTERRUPTED
    _report(trainer, folder, data_options(options.data_dir, options.data))
    return 0


def _config(options: argparse.Namespace) -> Config:
    if options.task is None:
        raise UserError(f"name a task: {', '.join(TASKS.names())}; or --resume a run")
    return make_config(
        options.task,
        options.model or "tardis",
        options.estimator,
        options.scale or "small",
        options.seed or 0,
        dict(setting(text) for text in options.set if text != "help"),
    )


def _print_settings(config: Config) -> int:
    """One line per setting: its value and what it means."""
    print(f"{config.task}, {config.system}, scale {config.scale}:")
    assigned = {key: f"{key}={value}" for key, value in config.settings().items()}
    width = max(map(len, assigned.values()))
    for key, text in config.help().items():
        print(f"  {assigned[key]:<{width}}  {text}")
    return 0


def _new(options: argparse.Namespace, config: Config) -> tuple[Trainer, RunFolder]:
    trainer = Trainer(config, _data(options, config), options.device)
    folder = RunFolder.create(Path(options.out) if options.out else _free_folder(config))
    folder.describe(trainer)
    folder.save(trainer)
    return trainer, folder


def _data(options: argparse.Namespace, config: Config) -> Any:
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


def _resumed(options: argparse.Namespace) -> tuple[Trainer, RunFolder]:
    path = Path(options.resume)
    values, config = load_checkpoint(path)
    for name in ("task", "model", "estimator", "scale", "seed"):
        asked, has = getattr(options, name), getattr(config, name)
        if asked not in (None, has):
            raise UserError(
                f"the checkpoint in {path} is of {name} {has!r}, not {asked!r}; "
                f"leave {name} out, or start a new run"
            )
    if options.set or options.out:
        raise UserError("--resume continues a run as it is: leave out --set and --out")
    trainer = Trainer(config, _data(options, config), options.device)
    _restore(trainer, values, path)
    return trainer, RunFolder.reopen(path if path.is_dir() else path.parent, trainer)


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
        f"seed {config.seed}, on {trainer.device}\n"
        f"data: {data.name}, {data.origin}"
    )


class _Interrupt:
    """The first Ctrl-C (or SIGTERM) asks the loop to stop, the second stops at once."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> "_Interrupt":
        self._before = {s: signal.signal(s, self._ask) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


def _train(trainer: Trainer, folder: RunFolder) -> bool:
    """Train to the end; False if it was interrupted and saved."""
    total, lines, latest = trainer.config.training.updates, _Lines(trainer), ""
    terminal = sys.stderr.isatty()
    bar = tqdm(total=total, initial=trainer.update, unit="update", disable=not terminal)

    def on_update(loss: float) -> None:
        bar.update()
        bar.set_postfix_str(f"loss {loss:.4f}{latest}", refresh=False)
        if not terminal and lines.due and not trainer.validation_due:
            lines.print(loss)

    with bar, _Interrupt() as interrupt:
        try:
            for row in trainer.run(on_update, lambda: interrupt.asked):
                folder.save(trainer)
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


def _report(trainer: Trainer, folder: RunFolder, data: list[str]) -> None:
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


def _result(trainer: Trainer, best: dict[str, Any]) -> dict[str, Any]:
    return {
        "validation": trainer.evaluate("valid"),
        "test": trainer.evaluate("test"),
        "best_update": best["update"],
        "updates": trainer.update,
        "training_seconds": trainer.history[-1]["training_seconds"],
        "data": asdict(trainer.provenance),
        "backend": trainer.backend,
        "config": trainer.config.to_dict(),
    }


def _resume_command(folder: RunFolder, options: argparse.Namespace) -> str:
    """With the options that a checkpoint does not hold, where they were given."""
    words = ["python", "-m", "tardis_core.train", "--resume", str(folder.path)]
    if options.device != "auto":
        words += ["--device", options.device]
    return shlex.join([*words, *data_options(options.data_dir, options.data)])


if __name__ == "__main__":
    sys.exit(main())
