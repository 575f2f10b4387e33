"""Delivers a stretch of the event log to MLflow; doing it twice changes nothing."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from mlflow.entities import Metric
from mlflow.utils.mlflow_tags import (
    MLFLOW_GIT_COMMIT,
    MLFLOW_RUN_NAME,
    MLFLOW_SOURCE_NAME,
    MLFLOW_SOURCE_TYPE,
    MLFLOW_USER,
)

from orchestrator.common.redaction import masked
from orchestrator.tracking.event_log import LOG, scan
from orchestrator.tracking.events import (
    Artifact,
    Event,
    Metrics,
    Model,
    SweepEnded,
    SweepMetrics,
    SweepStarted,
    SweepTags,
    TrialEnded,
    TrialPaused,
    TrialStarted,
    encode,
)
from orchestrator.tracking.mlflow_runs import SweepRuns, Update, clean_name, is_refusal
from orchestrator.tracking.mlflow_store import open_store, reason
from orchestrator.tracking.states import PAUSED, STATE_TAG, State

REFUSED = "tracking.refused.jsonl"
WINDOW = 1000  # events at a time


class Store(NamedTuple):
    """Where runs are recorded."""

    tracking_uri: str
    experiment: str
    artifact_location: str | None = None  # of the experiment, if it has to be created


class Delivered(NamedTuple):
    """The result of delivering a stretch."""

    sent: int  # the offset up to which the store has everything
    refused: int = 0  # events that the store refused; they are in tracking.refused.jsonl
    why: str = ""  # the reason for the last refusal


class Delivery:
    """Delivers the events of one sweep from its folder to one store."""

    def __init__(self, folder: Path, store: Store, sweep_id: str) -> None:
        self._folder, self._store, self._sweep_id = folder, store, sweep_id
        self._runs: SweepRuns | None = None

    def send(self, start: int, end: int) -> Delivered:
        """Deliver the events between two offsets of the log, at most `WINDOW` of them.

        Raises whatever the store raises if it cannot be reached; some events may have arrived then,
        and all of them have to be sent again.
        """
        try:
            if self._runs is None:
                self._runs = SweepRuns(*open_store(*self._store), self._sweep_id)
                if start and None not in self._runs:
                    return Delivered(0)  # a new store, or one that lost the sweep: start over
            window = list(islice(self._between(start, end), WINDOW))
            refusals = self._send(self._runs, [event for event, _ in window])
        except Exception:
            self._runs = None  # what the store has now is uncertain
            raise
        sent = window[-1][1] if window else end
        return Delivered(sent, len(refusals), refusals[-1] if refusals else "")

    def close(self) -> None:
        """Nothing to close; as in `DeliveryProcess`."""

    def _between(self, start: int, end: int) -> Iterable[tuple[Event, int]]:
        return (
            (event, offset) for event, offset in scan(self._folder / LOG, start) if offset <= end
        )

    def _send(self, runs: SweepRuns, events: Sequence[Event]) -> list[str]:
        """Send the events together; if the store refuses, find the ones that it refuses."""
        try:
            for number, update in fold(events).items():
                runs.apply(number, update)
            if any(isinstance(event, SweepEnded) for event in events):
                runs.remove_duplicates()
        except Exception as error:
            if not is_refusal(error):
                raise
            if len(events) == 1:
                return [self._set_aside(events[0], error)]
            middle = len(events) // 2
            return self._send(runs, events[:middle]) + self._send(runs, events[middle:])
        return []

    def _set_aside(self, event: Event, error: Exception) -> str:
        with open(self._folder / REFUSED, "a") as file:
            line = {"error": masked(str(error)), **json.loads(encode(event))}
            file.write(json.dumps(line) + "\n")
        return reason(error)


def fold(events: Iterable[Event]) -> dict[int | None, Update]:
    """The changes to each run that a stretch of the log makes; None stands for the sweep's run."""
    updates: dict[int | None, Update] = {}
    for event in events:
        update = updates.setdefault(getattr(event, "number", None), Update(event.at))
        match event:
            case SweepStarted():
                update.resume()
                update.params |= event.params
                update.tags |= {MLFLOW_RUN_NAME: event.name, **event.tags, **_source(event.tags)}
            case TrialStarted():
                update.resume()
                update.params |= event.params
                update.tags |= {**event.tags, STATE_TAG: State.RUNNING}
            case Metrics():
                update.resume()
                update.metrics += _metrics(event)
                update.tags |= {STATE_TAG: State.RUNNING}
            case TrialPaused():
                update.tags |= {STATE_TAG: PAUSED}
            case TrialEnded():
                state = State.from_event(event)
                update.status, update.ended_at = state.mlflow_status, event.at
                update.tags |= {**event.tags, STATE_TAG: state}
            case SweepMetrics():
                update.metrics += _metrics(event)
            case SweepEnded():
                update.status, update.ended_at = event.status, event.at
            case SweepTags():
                update.tags |= event.tags
            case Artifact():
                update.artifacts.append(event)
            case Model():
                update.models.append(event)
    return updates


def _source(tags: Mapping[str, str]) -> dict[str, str]:
    """Who started a sweep, with which command and code, under the names that MLflow shows."""
    names = {
        "user": MLFLOW_USER,
        "command": MLFLOW_SOURCE_NAME,
        "git_commit": MLFLOW_GIT_COMMIT,
    }
    source = {name: tags[key] for key, name in names.items() if key in tags}
    return {**source, MLFLOW_SOURCE_TYPE: "LOCAL"} if source else {}


def _metrics(event: Metrics | SweepMetrics) -> list[Metric]:
    values = event.values.items()
    return [Metric(clean_name(name), value, event.at, event.step) for name, value in values]
