"""How far a sweep is: its trials, its leaders, and the time that is left."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.planning.plan import SweepPlan
from orchestrator.tracking.events import Event, Metrics, TrialEnded, TrialPaused, TrialStarted
from orchestrator.tracking.states import ERROR_TAG, PAUSED, State
from tardis_core.text import duration, short
from tardis_core.training.best import best_row, phase_start


@dataclass
class Row:
    """What is known of one trial."""

    state: State = State.RUNNING
    value: float | None = None  # the best so far
    results: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""  # why it failed
    paused: bool = False  # waits for a promotion


@dataclass
class Snapshot:
    """Where a sweep is; what is shown follows from it."""

    plan: SweepPlan
    rows: Mapping[int, Row]
    seconds: float = 0.0  # since this start of the sweep
    results_before: int = 0  # of all trials, at this start

    @property
    def ended(self) -> int:
        """How many trials have ended."""
        return sum(row.state.ended for row in self.rows.values())

    @property
    def done(self) -> float:
        """The trials that have ended, and of each running one the share of its results."""
        shares = (
            min(1.0, row.results / self.plan.reports_of(number))
            for number, row in self.rows.items()
            if not row.state.ended
        )
        return self.ended + sum(shares)

    def results_of(self, number: int) -> str:
        """How many results a trial has, of how many."""
        return f"{self.rows[number].results}/{self.plan.reports_of(number)}"

    def counts(self) -> str:
        """The number of trials in each state."""
        states = Counter(row.state for row in self.rows.values() if not row.paused)
        waiting = sum(row.paused for row in self.rows.values())
        paused = f"{waiting} paused, " if waiting else ""
        return (
            f"{self.ended}/{self.plan.trials} ended, {states[State.RUNNING]} running, {paused}"
            f"{states[State.PRUNED]} pruned, {states[State.FAILED]} failed"
        )

    @property
    def new_results(self) -> int:
        """The results of this start; a resumed trial repeats earlier ones, which do not count."""
        return sum(row.results for row in self.rows.values()) - self.results_before

    def results_left(self) -> float:
        """How many results are still to come, if trials are pruned as often as so far."""
        full = self.plan.reports_of
        shares = [
            row.results / full(number)
            for number, row in self.rows.items()
            if row.state.ended and row.state is not State.FAILED
        ]
        waiting = Counter(full(n) for n in range(self.plan.trials) if n not in self.rows)
        running = [(full(n), row.results) for n, row in self.rows.items() if not row.state.ended]
        return sum(
            count * _expected(reports, 0, shares) for reports, count in waiting.items()
        ) + sum(_expected(reports, results, shares) - results for reports, results in running)

    def time_left(self) -> float | None:
        """Seconds, estimated from the pace of this start; None before there is a pace."""
        left = self.results_left()
        estimates = [self.seconds / self.new_results * left] if self.new_results > 0 else []
        if self.plan.time_budget:
            estimates.append(self.plan.time_budget - self.seconds)
        return min(estimates) if estimates and left > 0 else None

    def summary(self) -> str:
        """Counts and remaining time in one line."""
        left = self.time_left()
        return self.counts() + ("" if left is None else f", about {duration(left)} left")

    def best(self) -> str:
        """The best value so far; before there is one, what the sweep is waiting for."""
        for number in self.ranked()[:1]:
            best = self.rows[number].value
            return f"best {self.plan.metric} {best:.4f} ({self.plan.title(number)})"
        activity = "training until the first validation" if self.rows else "starting the workers"
        return f"no result yet: {activity}, {duration(self.seconds)} so far"

    def ranked(self) -> list[int]:
        """The trials that have a value and did not fail, best first."""
        sign = 1 if self.plan.better == "lower" else -1
        values = {
            number: row.value
            for number, row in self.rows.items()
            if row.value is not None and row.state is not State.FAILED
        }
        return sorted(values, key=lambda number: (sign * values[number], number))

    def leaders(self, width: int, most: int) -> list[list[str]]:
        """The leading trials as columns of text with their heads: what differs, if it fits."""
        numbers = self.ranked()[:most]
        if not numbers:
            return []
        rows = [self.rows[number] for number in numbers]
        columns = [
            ["trial", *(self._name(number) for number in numbers)],
            [self.plan.metric, *(f"{row.value:.4f}" for row in rows)],
            ["state", *(PAUSED if row.paused else row.state for row in rows)],
            ["results", *map(self.results_of, numbers)],
        ]
        # The name of a run of a comparison says these.
        in_title = ("model", "estimator", "seed") if self.plan.kind == "comparison" else ()
        names = dict.fromkeys(name for row in rows for name in row.settings if name not in in_title)
        # What all of them have comes first: the last columns may not fit.
        for name in sorted(names, key=lambda name: any(name not in row.settings for row in rows)):
            values = [short(row.settings.get(name, "-")) for row in rows]
            if len(set(values)) > 1:
                columns.append([name.rpartition(".")[2], *values])
        while sum(2 + max(map(len, column)) for column in columns) > width and len(columns) > 2:
            columns.pop()
        return columns

    def _name(self, number: int) -> str:
        return self.plan.title(number).removeprefix("trial ")


def _expected(reports: int, results: int, shares: Sequence[float]) -> float:
    """The expected number of results, at its end, of a trial that has some.

    Args:
        reports: the results of such a trial if it runs to its end.
        results: those it has.
        shares: of their reports, what the trials that have ended came to.
    """
    # One more stands for the unknown: a trial that runs to its end.
    further = [1.0, *(share for share in shares if share * reports > results)]
    return max(results, reports * sum(further) / len(further))


def rows_of(events: Iterable[Event], plan: SweepPlan) -> dict[int, Row]:
    """The trials of an event log."""
    rows: dict[int, Row] = {}
    validations: dict[int, list[dict[str, float]]] = defaultdict(list)
    key = f"valid_{plan.metric}"
    for event in events:
        match event:
            case TrialStarted(number=number, params=params):
                row = rows.setdefault(number, Row())
                row.state, row.paused = State.RUNNING, False
                row.settings = params or row.settings
            case TrialPaused(number=number):
                row = rows.setdefault(number, Row())
                row.state, row.paused = State.STOPPED, True
            case Metrics(number=number, values=values) if key in values:
                validations[number].append({"update": event.step, key: values[key]})
                rows.setdefault(number, Row()).results += 1
            case TrialEnded(number=number, tags=tags):
                row = rows.setdefault(number, Row())
                row.state, row.paused = State.from_event(event), False
                row.reason = tags.get(ERROR_TAG, "")
    for number, history in validations.items():
        start = _phase_start(rows[number].settings, plan.protocol.race)
        best = best_row(history, key, plan.better, start)
        rows[number].value = None if best is None else best[key]
    return rows


def _phase_start(settings: Mapping[str, str], race: bool) -> float:
    """`phase_start` of settings as the log has them, in text."""
    names = ("memory.vary_cells_from", "training.updates")
    numbers = {name: float(settings[name]) for name in names if name in settings}
    return phase_start(numbers, race and "training.updates" in numbers)
