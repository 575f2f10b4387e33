"""Everything a sweep has measured, read once from its event log; also while the sweep runs."""

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import optuna
import pandas as pd

from orchestrator.execution.study import open_study
from orchestrator.planning.plan import RACE_TAG, ComparisonPlan, SweepPlan
from orchestrator.tracking.event_log import LOG, scan
from orchestrator.tracking.events import (
    Event,
    Metrics,
    SweepStarted,
    SweepTags,
    TrialEnded,
    TrialStarted,
)
from orchestrator.tracking.states import State
from tardis_core.config import Config, config_from_dict
from tardis_core.training.best import best_row, phase_start

# The first columns of a table of trials; those of the settings follow.
OUTCOME_COLUMNS = ("number", "state", "objective", "step", "validations", "seconds")
NAMES = ("task", "model", "estimator", "scale", "seed")  # parameters that are not settings
RANKED_STATES = (State.COMPLETE, State.PRUNED, State.STOPPED, State.RUNNING, State.FAILED)


@dataclass
class TrialRecord:
    """One trial: its parameters, its state, and one row of metrics per validation."""

    number: int
    params: dict[str, str] = field(default_factory=dict)
    state: State = State.RUNNING
    tags: dict[str, str] = field(default_factory=dict)
    rows: list[dict[str, float]] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """Whether the trial needs no more work."""
        return self.state.ended

    def best_row(self, metric: str, better: str) -> dict[str, float] | None:
        """The validation whose weights are kept as the best; None if there is none."""
        key = f"valid_{metric}"
        rows = [{**row, "update": row["step"]} for row in self.rows if row.get(key) is not None]
        best = best_row(rows, key, better, self._phase_start())
        return None if best is None else {name: best[name] for name in best if name != "update"}

    def _phase_start(self) -> float:
        """The update after which the best weights are sought; the parameters are text."""
        names = ("memory.vary_cells_from", "training.updates")
        settings = {name: float(self.params[name]) for name in names if name in self.params}
        return phase_start(settings, RACE_TAG in self.tags and "training.updates" in settings)

    def settings(self) -> dict[str, str]:
        """Everything but the seed that defines the trial, in the form a search space returns."""
        common = ("task", "scale", "seed")
        return {key: value for key, value in self.params.items() if key not in common}

    def config(self) -> Config:
        """The configuration that the trial ran with."""
        names = {name: self.params[name] for name in NAMES}
        settings = {key: value for key, value in self.params.items() if key not in NAMES}
        return config_from_dict({**names, "seed": int(names["seed"]), "settings": settings})


@dataclass
class Records:
    """The trials of one sweep as they were when its event log was read."""

    plan: SweepPlan
    trials: dict[int, TrialRecord] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)  # of the sweep: data, versions, hardware
    commands: list[str] = field(default_factory=list)  # that started and resumed it, as typed
    started: int | None = None  # milliseconds since 1970
    last: int | None = None  # time of the last event
    _study: optuna.Study | None = field(default=None, repr=False)

    @classmethod
    def load(cls, plan: SweepPlan) -> "Records":
        """Read the event log of a sweep; a sweep that has not started has no trials."""
        records = cls(plan)
        path = plan.folder / LOG
        for event, _ in scan(path) if path.exists() else ():
            records._add(event)
        return records

    def _add(self, event: Event) -> None:
        self.started, self.last = self.started or event.at, event.at
        match event:
            case SweepStarted(tags=tags) | SweepTags(tags=tags):
                self.tags |= tags
                self.commands += [tags["command"]] if "command" in tags else []
            case TrialStarted(number=number):
                trial = self._trial(number)
                trial.params = dict(event.params) or trial.params
                trial.state, trial.tags = State.RUNNING, {**trial.tags, **event.tags}
            case Metrics(number=number):
                _add_metrics(self._trial(number), event)
            case TrialEnded(number=number):
                trial = self._trial(number)
                trial.state = State.from_event(event)
                trial.tags |= event.tags

    def stop_open_trials(self) -> None:
        """Say that nothing runs any more, of a sweep that has ended and not yet recorded it."""
        for trial in self.trials.values():
            if trial.state is State.RUNNING:
                trial.state = State.STOPPED

    def _trial(self, number: int) -> TrialRecord:
        return self.trials.setdefault(number, TrialRecord(number))

    def study(self) -> optuna.Study:
        """The Optuna study of a search, opened when it is first needed."""
        if self._study is None:
            self._study = open_study(self.plan.folder, self.plan.name)
        return self._study

    def objective(self, number: int) -> float | None:
        """The best validation of a trial; None if it has none."""
        row = self._best_row(self.trials[number])
        return None if row is None else row[f"valid_{self.plan.metric}"]

    def _best_row(self, trial: TrialRecord) -> dict[str, float] | None:
        return trial.best_row(self.plan.metric, self.plan.better)

    def table(self) -> pd.DataFrame:
        """The leaderboard, one row per trial: complete ones first, each state by objective."""
        if not self.trials:
            return pd.DataFrame(columns=list(OUTCOME_COLUMNS))
        frame = pd.DataFrame([self._row(trial) for trial in self.trials.values()])
        rank = frame["state"].map({state: place for place, state in enumerate(RANKED_STATES)})
        ascending = [True, self.plan.better == "lower"]
        ranked = frame.assign(_rank=rank).sort_values(["_rank", "objective"], ascending=ascending)
        return ranked.drop(columns="_rank").reset_index(drop=True)

    def _row(self, trial: TrialRecord) -> dict[str, Any]:
        best = self._best_row(trial) or {}
        last = trial.rows[-1] if trial.rows else {}
        return {
            "number": trial.number,
            "state": trial.state,
            "objective": best.get(f"valid_{self.plan.metric}"),
            "step": best.get("step"),
            "validations": len(trial.rows),
            "seconds": last.get("training_seconds"),
            **trial.params,
        }

    def curves(self) -> pd.DataFrame:
        """One row per validation of every trial."""
        return pd.DataFrame(
            [
                {"number": trial.number, **row}
                for trial in self.trials.values()
                for row in trial.rows
            ]
        )

    def best(self, count: int) -> list[int]:
        """The numbers of the best complete trials, best first."""
        return list(self._ranked())[:count]

    def best_trial(self) -> int | None:
        """The trial that stands for the sweep; in a comparison the best run of the best candidate.

        Validation alone decides: a model chosen by its test metric would have no test left.
        """
        return next(iter(self.best_trials()), None)

    def best_trials(self) -> list[int]:
        """The trial that stands for the sweep, then those that could if its weights were lost."""
        numbers = self.best(len(self.trials))
        if isinstance(self.plan, ComparisonPlan):
            candidate = self._best_candidate(self.plan)
            numbers = [n for n in numbers if self.plan.candidate_of(n).label == candidate]
        return numbers

    def _best_candidate(self, plan: ComparisonPlan) -> str | None:
        """The label of the candidate with the fewest failed seeds, then the best mean validation.

        Failures count first: the mean of a candidate that failed is that of its lucky seeds.
        """
        objectives: dict[str, list[float]] = defaultdict(list)
        for number, value in self._ranked().items():
            objectives[plan.candidate_of(number).label].append(value)
        failures = Counter(
            plan.candidate_of(number).label
            for number, trial in self.trials.items()
            if trial.state is State.FAILED
        )
        means = {label: self._sign * fmean(values) for label, values in objectives.items()}
        return min(means, key=lambda label: (failures[label], means[label]), default=None)

    def _ranked(self) -> dict[int, float]:
        """The objectives of the complete trials, best first."""
        values = {
            number: value
            for number, trial in self.trials.items()
            if trial.state is State.COMPLETE and (value := self.objective(number)) is not None
        }
        return dict(sorted(values.items(), key=lambda item: self._sign * item[1]))

    @property
    def _sign(self) -> int:
        """The factor that makes lower better."""
        return 1 if self.plan.better == "lower" else -1


def _add_metrics(trial: TrialRecord, event: Metrics) -> None:
    """Add values to the row of their step; what was recovered may come after later steps."""
    place = bisect_left(trial.rows, float(event.step), key=lambda row: row["step"])
    if place == len(trial.rows) or trial.rows[place]["step"] != event.step:
        trial.rows.insert(place, {"step": event.step})
    trial.rows[place] |= event.values
