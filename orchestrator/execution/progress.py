"""What a person sees while a sweep runs: a live table on a terminal, plain lines elsewhere."""

import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna.trial import TrialState
from ray.tune.experiment import Trial

from orchestrator.execution.recorder import EndsOfTrials, number_of, params_of
from orchestrator.execution.search import FAILED, OBJECTIVE
from orchestrator.planning.plan import SweepPlan
from orchestrator.results import records
from orchestrator.results.leaderboard import short

REFRESH_SECONDS = 1.0
SILENCE_SECONDS = 60.0  # without a terminal: a line at least so often
LEADERS = 6
RUNNING = "running"
ENDS = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}


@dataclass
class Row:
    """What is known of one trial."""

    state: str = RUNNING
    value: float | None = None  # the best so far
    reports: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)


class View(EndsOfTrials):
    """Follows the trials by their numbers, and shows where they are."""

    def __init__(self, plan: SweepPlan) -> None:
        self.plan = plan
        self.rows: dict[int, Row] = {}
        self._ended_before = 0
        self._started = self._shown = time.time()
        self._lines = 0  # of the last drawing, which the next one replaces

    def setup(self, *arguments: Any, **info: Any) -> None:
        """Begin with what has ended before, be the sweep new, resumed or extended."""
        for record in records.read(self.plan).values():
            if record.ended:
                best_row = record.best_row(self.plan.metric, self.plan.better) or {}
                value = best_row.get(f"valid_{self.plan.metric}")
                row = Row(record.state, value, len(record.rows), record.params)
                self.rows[record.number] = row
        self._ended_before = len(self.rows)
        self._started = self._shown = time.time()
        if self.live:
            self._draw()

    @property
    def live(self) -> bool:
        """Whether there is a terminal to draw on."""
        return sys.stdout.isatty()

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        if self.live and time.time() - self._shown >= REFRESH_SECONDS:
            self._draw()
        elif not self.live and time.time() - self._shown >= SILENCE_SECONDS:
            self._say(self._progress())

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self._row(trial)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        row, value = self._row(trial), result.get(OBJECTIVE)
        row.reports = int(result.get("training_iteration", row.reports))
        if value is not None and value == value:
            row.value = value

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        if self.live:
            self._draw()

    def _row(self, trial: Trial) -> Row:
        number = number_of(trial)
        if number not in self.rows:
            self.rows[number] = Row(settings=params_of(self.plan, trial))
        return self.rows[number]

    def ended(self, trial: Trial, state: TrialState) -> None:
        row = self._row(trial)
        row.state = ENDS[state]
        if self.live:
            return
        measured = "" if row.value is None else f"  {self.plan.metric} {row.value:.4f}"
        why = (trial.last_result or {}).get(FAILED)
        reason = f"  {why}" if why else ""
        self._say(f"{self.plan.title(number_of(trial)):<10}  {row.state:<8}{measured}{reason}")
        self._say(f"    {self._progress()}, {self._best()}")

    def _say(self, text: str) -> None:
        self._shown = time.time()
        print(text, flush=True)

    def _progress(self) -> str:
        return progress(self.plan, self.rows, time.time() - self._started, self._ended_before)

    def _best(self) -> str:
        return best(self.plan, self.rows, time.time() - self._started)

    def _draw(self) -> None:
        columns, height = shutil.get_terminal_size()
        # A line as wide as the terminal would wrap on some, and spoil the way back.
        most = max(0, min(LEADERS, height - 5))
        table = leaders(self.plan, self.rows, columns - 1, most)
        lines = [self._progress(), self._best(), *table]
        lines = [line[: columns - 1] for line in lines]
        # Back to where the last drawing began, and clear from there on.
        back = f"\x1b[{self._lines}F\x1b[J" if self._lines else ""
        self._say(back + "\n".join(lines))
        self._lines = len(lines)


def progress(plan: SweepPlan, rows: Mapping[int, Row], seconds: float, before: int = 0) -> str:
    """Where the sweep is, in a line; `before` trials had ended when its `seconds` began."""
    states = Counter(row.state for row in rows.values())
    parts = [
        f"{len(rows) - states[RUNNING]}/{plan.trials} ended",
        f"{states[RUNNING]} running",
        f"{states['pruned']} pruned",
        f"{states['failed']} failed",
    ]
    return ", ".join([*parts, *_time_left(plan, rows, seconds, before)])


def best(plan: SweepPlan, rows: Mapping[int, Row], seconds: float) -> str:
    """The best so far, in words; before there is one, what is being waited for."""
    for number in ranked(plan, rows)[:1]:
        return f"best {plan.metric} {rows[number].value:.4f} ({plan.title(number)})"
    doing = "training until the first validation" if rows else "starting the workers"
    return f"no result yet: {doing}, {duration(seconds)} so far"


def _time_left(
    plan: SweepPlan, rows: Mapping[int, Row], seconds: float, before: int
) -> Sequence[str]:
    """An estimate from the pace so far, in which a running trial counts by its reports."""
    begun = sum(
        min(1.0, row.reports / plan.reports) for row in rows.values() if row.state == RUNNING
    )
    ended = sum(row.state != RUNNING for row in rows.values())
    done, left = ended - before + begun, plan.trials - ended - begun
    guesses = [seconds / done * left] if done > 0 else []
    if plan.time_budget:
        guesses.append(plan.time_budget - seconds)
    return [f"about {duration(min(guesses))} left"] if guesses and left > 0 else []


def duration(seconds: float) -> str:
    """A time to read, with one unit, or hours and minutes."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def ranked(plan: SweepPlan, rows: Mapping[int, Row]) -> list[int]:
    """The trials that have a value and did not fail, the best first."""
    sign = 1 if plan.better == "lower" else -1
    values = {
        number: row.value
        for number, row in rows.items()
        if row.value is not None and row.state != "failed"
    }
    return sorted(values, key=lambda number: (sign * values[number], number))


def leaders(plan: SweepPlan, rows: Mapping[int, Row], width: int, most: int) -> list[str]:
    """The leading trials as a table of at most `width`: what differs between them, if it fits."""
    numbers = ranked(plan, rows)[:most]
    if not numbers:
        return []
    columns = [
        ["trial", *(plan.title(number).removeprefix("trial ") for number in numbers)],
        [plan.metric, *(f"{rows[number].value:.4f}" for number in numbers)],
        ["state", *(rows[number].state for number in numbers)],
        ["reports", *(f"{rows[number].reports}/{plan.reports}" for number in numbers)],
    ]
    chosen = [rows[number].settings for number in numbers]
    for name in dict.fromkeys(name for settings in chosen for name in settings):
        values = [short(settings.get(name, "-")) for settings in chosen]
        if len(set(values)) > 1:
            columns.append([name.rpartition(".")[2], *values])
    cells = [[text.rjust(max(map(len, column))) for text in column] for column in columns]
    while sum(2 + len(column[0]) for column in cells) > width and len(cells) > 2:
        cells.pop()
    return ["".join(f"  {text}" for text in line) for line in zip(*cells, strict=True)]
