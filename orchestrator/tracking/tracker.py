"""Tracking that never makes the sweep wait: a thread has the event log delivered to MLflow.

It delivers from the log's cursor on, and moves the cursor when everything has arrived. Anything in
doubt is sent again, which changes nothing: every run, step and tag is recorded exactly once, no
matter which process was killed in between.
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

PAUSE_SECONDS = 1.0  # between deliveries: many events together cost little more than one
BACKOFF_SECONDS = (0.5, 10.0)  # after the first failure, and the maximum

logger = logging.getLogger(__name__)


class Tracker:
    """Delivers the event log of a sweep to an MLflow store, in the background and in order."""

    def __init__(
        self,
        log: EventLog,
        tracking_uri: str,
        experiment: str,
        sweep_id: str,
        artifact_location: str | None = None,
        separate_process: bool = False,
    ) -> None:
        """
        Args:
            sweep_id: unique in the store.
            artifact_location: of the experiment, if it has to be created.
            separate_process: deliver from a process of its own, which takes seconds to start and
                then leaves the interpreter of this one alone.
        """
        require(
            re.fullmatch(r"[\w.-]+", sweep_id) is not None,
            f"a sweep's id consists of letters, digits, '-', '_' and '.', not {sweep_id!r}",
        )
        self._log = log
        store = Store(tracking_uri, experiment, artifact_location)
        delivery = DeliveryProcess if separate_process else Delivery
        self._delivery = delivery(log.folder, store, sweep_id)
        self._failures = 0
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="tracking", daemon=True)
        self.last_error: str | None = None  # why nothing can be delivered now
        self.refused = 0  # events that the store refused; see tracking.refused.jsonl

    @property
    def waiting(self) -> int:
        """How many events have not been delivered yet."""
        return self._log.waiting

    def start(self) -> None:
        """Start to deliver, first what an earlier process has left."""
        self._thread.start()

    def flush(self, timeout: float) -> int:
        """Wait up to `timeout` seconds until everything is delivered; returns `waiting`."""
        deadline = time.monotonic() + timeout
        self._failures = 0
        self._wake.set()
        while self.waiting and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.waiting

    def close(self, timeout: float) -> int:
        """Flush and stop; what is still `waiting` stays on disk for the next tracker."""
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
                # Whatever it is, the sweep continues, and the log keeps everything.
                self.last_error = reason(error)
                first, longest = BACKOFF_SECONDS
                pause = min(longest, first * 2**self._failures)
                self._failures += 1
            self._wake.wait(pause)
            self._wake.clear()

    def _deliver(self) -> None:
        """Deliver everything that waits; raises if the store cannot be reached."""
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
