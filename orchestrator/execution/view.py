"""What a person sees while a sweep runs: a live view on a terminal, plain lines elsewhere."""

import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from ray.tune.experiment import Trial
from rich.console import Console, ConsoleDimensions, RenderableType
from rich.control import Control
from rich.live import Live
from rich.segment import ControlCode, ControlType, Segment

from orchestrator.execution.callbacks import TrialEnds, number_of, params_of
from orchestrator.execution.drawing import draw, draw_end
from orchestrator.execution.progress import Row, Snapshot, rows_of
from orchestrator.execution.result import FAILED, OBJECTIVE, has_objective
from orchestrator.planning.plan import SweepPlan
from orchestrator.tracking.event_log import LOG, scan
from orchestrator.tracking.states import State

REFRESH_SECONDS = 1.0
SILENCE_SECONDS = 60.0  # without a terminal: the longest time without a line


class View(TrialEnds):
    """Follows the trials of a sweep, and shows where they are; a context that ends the display."""

    def __init__(self, plan: SweepPlan) -> None:
        self.plan = plan
        self.rows: dict[int, Row] = {}
        self._results_before = 0
        self._started = self._shown = time.time()
        self._display: Live | None = None
        self._widths: list[int] = []  # of the lines of the last drawing

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._display is not None:
            # What leads is printed by the command, as a table that stays.
            self._show(self._display, draw_end(self.snapshot(), _terminal_size().width))
            self._display.stop()
            self._display = None

    def __getstate__(self) -> dict[str, Any]:
        # Ray pickles its callbacks, and a display belongs to its terminal.
        return {**self.__dict__, "_display": None}

    @property
    def live(self) -> bool:
        """Whether there is a terminal to draw on."""
        return sys.stdout.isatty()

    def setup(self, *arguments: Any, **info: Any) -> None:
        """Start with the trials of before, if the sweep is resumed or extended."""
        path = self.plan.folder / LOG
        events = (event for event, _ in scan(path)) if path.exists() else ()
        self.rows = rows_of(events, self.plan)
        for row in self.rows.values():
            row.state = row.state if row.state.ended else State.STOPPED  # until Ray starts it
        self._results_before = sum(row.results for row in self.rows.values())
        self._started = self._shown = time.time()
        if self.live:
            self._draw()

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        quiet = time.time() - self._shown
        if self.live and quiet >= REFRESH_SECONDS:
            self._draw()
        elif not self.live and quiet >= SILENCE_SECONDS:
            self._print(self.snapshot().summary())

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        row = self._row(trial)
        row.state, row.paused = State.RUNNING, False

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        row = self._row(trial)
        results = int(result.get("training_iteration", row.results))
        if results < row.results:
            return  # repeated by a trial that was resumed
        row.results = results
        if has_objective(result):
            row.value = result[OBJECTIVE]

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        if self.live:
            self._draw()

    def ended(self, trial: Trial, state: State) -> None:
        row = self._row(trial)
        row.state, row.reason = state, str((trial.last_result or {}).get(FAILED) or "")
        if self.live:
            return
        value = "" if row.value is None else f"  {self.plan.metric} {row.value:.4f}"
        reason = f"  {row.reason}" if row.reason else ""
        self._print(f"{self.plan.title(number_of(trial)):<10}  {row.state:<8}{value}{reason}")
        now = self.snapshot()
        self._print(f"    {now.summary()}, {now.best()}")

    def paused(self, trial: Trial) -> None:
        row = self._row(trial)
        row.state, row.paused = State.STOPPED, True
        if not self.live:
            value = "" if row.value is None else f"  {self.plan.metric} {row.value:.4f}"
            self._print(f"{self.plan.title(number_of(trial)):<10}  {'paused':<8}{value}")

    def snapshot(self) -> Snapshot:
        """Where the sweep is now."""
        return Snapshot(self.plan, self.rows, time.time() - self._started, self._results_before)

    def _row(self, trial: Trial) -> Row:
        number = number_of(trial)
        if number not in self.rows:
            self.rows[number] = Row(settings=params_of(self.plan, trial))
        return self.rows[number]

    def _print(self, text: str) -> None:
        self._shown = time.time()
        print(text, flush=True)

    def _draw(self) -> None:
        self._shown = time.time()
        if self._display is None:
            console = Console(file=sys.stdout)
            self._display = Live(console=console, auto_refresh=False, vertical_overflow="crop")
            self._display.start()
        self._show(self._display, draw(self.snapshot(), *_terminal_size()))

    def _show(self, display: Live, drawing: RenderableType) -> None:
        console = display.console
        # Asked every time: rich would take a COLUMNS of the environment for the size forever.
        console.size = _terminal_size()
        console.control(_erase_wrapped(self._widths, console.width))
        display.update(drawing, refresh=True)
        lines = console.render_lines(drawing, pad=False)
        self._widths = [Segment.get_line_length(line) for line in lines]


def _erase_wrapped(widths: Sequence[int], columns: int) -> Control:
    """Erase the lines by which a drawing has grown, in a window that has become narrower.

    Terminals wrap lines that have become too long; rich erases as many as it had drawn.
    """
    grown = sum(max(0, -(-width // columns) - 1) for width in widths)
    erase: list[ControlCode] = [(ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)]
    return Control(*(erase * grown))


def _terminal_size() -> ConsoleDimensions:
    size = shutil.get_terminal_size()
    with suppress(OSError, ValueError):
        size = os.get_terminal_size(sys.stdout.fileno())
    return ConsoleDimensions(size.columns or 80, size.lines or 24)
