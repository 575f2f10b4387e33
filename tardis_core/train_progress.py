"""A training while it runs: its progress, on a terminal or in lines, and how a signal stops it."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tqdm import tqdm

from tardis_core.errors import Diverged
from tardis_core.stopping import Interrupted, stop_signals
from tardis_core.text import duration
from tardis_core.training.loop import Row, Trainer
from tardis_core.training.run_folder import RunFolder

LONGEST_SILENCE = 60  # seconds between two lines of a training without a terminal


class Observer(Protocol):
    """Follows a training, for example to record it elsewhere."""

    def started(self, trainer: Trainer, folder: Path) -> None:
        """The training starts or is resumed."""

    def validated(self, rows: Sequence[Row]) -> None:
        """What was measured; the rows of before first, if the training is resumed."""

    def ended(self, result: Mapping[str, Any] | None) -> None:
        """The training has ended; None if it was interrupted or failed."""


def train_to_end(trainer: Trainer, folder: RunFolder, observers: Sequence[Observer]) -> bool:
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


class _Interrupt:
    """The first signal asks the loop to stop, the second stops at once."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> None:
        if self.asked:
            raise Interrupted
        self.asked = True
        print("stopping, saving ...", flush=True)


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
