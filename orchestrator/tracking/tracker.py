"""Tracking that never makes the sweep wait: a thread has the event log copied to MLflow.

It sends from the cursor of the log on, and moves the cursor when all has arrived. What it does not
know to have arrived it sends again, which changes nothing, so that every run, step and tag is
recorded exactly once, whoever was killed in between.
"""

import logging
import re
import threading
import time

from orchestrator.tracking.delivery import REFUSED, Delivered, Delivery, Store
from orchestrator.tracking.delivery_worker import DeliveryProcess
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.mlflow_store import reason
from tardis_core.errors import require

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
        apart: bool = False,
    ) -> None:
        """
        Args:
            sweep_id: a name of the sweep that no other sweep in the store has.
            artifact_location: of the experiment, should it have to be made.
            apart: in a process of its own, which takes seconds to start and then leaves this one
                all of its interpreter.
        """
        require(
            re.fullmatch(r"[\w.-]+", sweep_id) is not None,
            f"a sweep's id is made of letters, digits, '-', '_' and '.', not {sweep_id!r}",
        )
        self._log = log
        store = Store(tracking_uri, experiment, artifact_location)
        self._delivery = (DeliveryProcess if apart else Delivery)(log.folder, store, sweep_id)
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
        self._delivery.close()
        return self.waiting

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._deliver()
                self._failures, self.last_error = 0, None
                pause = PAUSE_SECONDS
            except Exception as error:
                # Whatever it is, the sweep goes on, and the log keeps everything.
                self.last_error = reason(error)
                first, most = BACKOFF_SECONDS
                pause = min(most, first * 2**self._failures)
                self._failures += 1
            self._wake.wait(pause)
            self._wake.clear()

    def _deliver(self) -> None:
        """Send all that waits; raises when the store is away."""
        while self._log.waiting and not self._stopping.is_set():
            self._log.sync()
            delivered = self._delivery.send(self._log.sent, self._log.end)
            self._log.mark_sent(delivered.sent)
            self._count(delivered)

    def _count(self, delivered: Delivered) -> None:
        if delivered.refused and not self.refused:
            path = self._log.folder / REFUSED
            logger.warning("MLflow refused an event (%s); it is kept in %s", delivered.why, path)
        self.refused += delivered.refused
