"""Tracking that never makes the sweep wait: a thread copies the event log to MLflow.

It sends from the cursor of the log on, and moves the cursor when all has arrived. What it does not
know to have arrived it sends again, which changes nothing, so that every run, step and tag is
recorded exactly once, whoever was killed in between.
"""

import json
import logging
import re
import threading
import time
from collections.abc import Iterable, Sequence
from itertools import islice

from mlflow.entities import Metric
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME

from orchestrator.events import (
    Artifact,
    Event,
    EventLog,
    Metrics,
    Model,
    SweepEnded,
    SweepStarted,
    SweepTags,
    TrialEnded,
    TrialStarted,
    encode,
)
from orchestrator.mlflow_store import (
    SweepRuns,
    Update,
    clean_name,
    is_refusal,
    open_store,
    prepare_store,
    reason,
)
from tardis_core.errors import require

__all__ = ["Tracker", "fold", "prepare_store"]

REFUSED = "tracking.refused.jsonl"
WINDOW = 1000  # events at a time
PAUSE_SECONDS = 1.0  # between two looks at the log: many events together cost little more than one
BACKOFF_SECONDS = (0.5, 10.0)  # after the first failure, and at most

logger = logging.getLogger(__name__)


class Tracker:
    """Copies the event log of a sweep to an MLflow store, in the background and in order."""

    def __init__(
        self,
        log: EventLog,
        tracking_uri: str,
        experiment: str,
        sweep_id: str,
        artifact_location: str | None = None,
    ) -> None:
        """
        Args:
            sweep_id: a name of the sweep that no other sweep in the store has.
            artifact_location: of the experiment, should it have to be made.
        """
        require(
            re.fullmatch(r"[\w.-]+", sweep_id) is not None,
            f"a sweep's id is made of letters, digits, '-', '_' and '.', not {sweep_id!r}",
        )
        self._log, self._sweep_id = log, sweep_id
        self._store = (tracking_uri, experiment, artifact_location)
        self._runs: SweepRuns | None = None
        self._failures = 0
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="tracking", daemon=True)
        self.last_error: str | None = None  # why nothing is arriving at present
        self.refused = 0  # events that the store would not take; see tracking.refused.jsonl

    @property
    def waiting(self) -> int:
        """How many events have not arrived yet."""
        return self._log.waiting

    def start(self) -> None:
        """Begin to send, beginning with what an earlier process left."""
        self._thread.start()

    def flush(self, timeout: float) -> int:
        """Wait until all has arrived, but no longer than `timeout` seconds; returns `waiting`."""
        deadline = time.monotonic() + timeout
        self._failures = 0
        self._wake.set()
        while self.waiting and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.waiting

    def close(self, timeout: float) -> int:
        """Flush, then stop; what is still `waiting` is on disk, for the next tracker to send."""
        deadline = time.monotonic() + timeout
        self.flush(timeout)
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(max(0.1, deadline - time.monotonic()))
        return self.waiting

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._deliver()
                self._failures, self.last_error = 0, None
                pause = PAUSE_SECONDS
            except Exception as error:
                # Whatever it is, the sweep goes on, and the log keeps everything.
                self._runs, self.last_error = None, reason(error)
                first, most = BACKOFF_SECONDS
                pause = min(most, first * 2**self._failures)
                self._failures += 1
            self._wake.wait(pause)
            self._wake.clear()

    def _deliver(self) -> None:
        """Send all that waits; raises when the store is away."""
        while self._log.waiting and not self._stopping.is_set():
            self._log.sync()
            if self._runs is None:
                self._runs = self._find_runs()
            window = list(islice(self._log.read(self._log.sent), WINDOW))
            self._send(self._runs, [event for event, _ in window])
            self._log.mark_sent(window[-1][1])

    def _find_runs(self) -> SweepRuns:
        client, experiment_id = open_store(*self._store)
        runs = SweepRuns(client, experiment_id, self._sweep_id)
        if self._log.sent and None not in runs:
            self._log.mark_sent(0)  # another store, or one that has lost the sweep: it gets it all
        return runs

    def _send(self, runs: SweepRuns, events: Sequence[Event]) -> None:
        """Send the events together; if the store refuses, find out which one it is."""
        try:
            for number, update in fold(events).items():
                runs.apply(number, update)
            if any(isinstance(event, SweepEnded) for event in events):
                runs.remove_strays()
        except Exception as error:
            if not is_refusal(error):
                raise
            if len(events) > 1:
                middle = len(events) // 2
                self._send(runs, events[:middle])
                self._send(runs, events[middle:])
            else:
                self._put_aside(events[0], error)

    def _put_aside(self, event: Event, error: Exception) -> None:
        path = self._log.folder / REFUSED
        with open(path, "a") as file:
            file.write(json.dumps({"error": str(error), **json.loads(encode(event))}) + "\n")
        if not self.refused:
            logger.warning("MLflow refused an event (%s); it is kept in %s", reason(error), path)
        self.refused += 1


def fold(events: Iterable[Event]) -> dict[int | None, Update]:
    """What a stretch of the log changes in each run; None is the number of the sweep's own."""
    updates: dict[int | None, Update] = {}
    for event in events:
        update = updates.setdefault(getattr(event, "number", None), Update(event.at))
        match event:
            case SweepStarted():
                update.go_on()
                update.params |= event.params
                update.tags |= {MLFLOW_RUN_NAME: event.name, **event.tags}
            case TrialStarted():
                update.go_on()
                update.params |= event.params
                update.tags |= event.tags
            case Metrics():
                update.go_on()
                update.metrics += _metrics(event)
            case TrialEnded():
                update.status, update.ended_at = event.status, event.at
                update.tags |= event.tags
            case SweepEnded():
                update.status, update.ended_at = event.status, event.at
            case SweepTags():
                update.tags |= event.tags
            case Artifact():
                update.artifacts.append(event)
            case Model():
                update.models.append(event)
    return updates


def _metrics(event: Metrics) -> list[Metric]:
    values = event.values.items()
    return [Metric(clean_name(name), value, event.at, event.step) for name, value in values]
