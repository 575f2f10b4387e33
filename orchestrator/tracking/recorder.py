"""Facts about trials as events of the log, each recorded once; it knows nothing of Ray."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.common.redaction import masked
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Metrics, TrialPaused, TrialStarted
from orchestrator.tracking.states import ERROR_TAG, State

LONGEST_ERROR = 4000  # characters


class Recorder:
    """Records what trials do."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def started(
        self, number: int, params: Mapping[str, Any], tags: Mapping[str, str] | None = None
    ) -> None:
        """A trial has started or is resumed."""
        self._log.append(TrialStarted(number, params, tags or {}))

    def measured(
        self,
        number: int,
        rows: Sequence[Mapping[str, float]],
        so_far: Mapping[str, float] | None = None,
    ) -> None:
        """A trial has been validated; rows that are recorded already are ignored.

        Args:
            so_far: metrics of the whole trial as they are after the last row.
        """
        for row in rows:
            values = {name: value for name, value in row.items() if name != "update"}
            values |= so_far or {} if row is rows[-1] else {}
            self._log.append(Metrics(number, int(row["update"]), values))

    def paused(self, number: int) -> None:
        """A trial waits for its promotion."""
        self._log.append(TrialPaused(number))

    def ended(self, number: int, state: State, tags: Mapping[str, str], error: str = "") -> None:
        """A trial has ended; `error` is the reason if it failed."""
        reason = {ERROR_TAG: masked(error)[:LONGEST_ERROR]} if error else {}
        self._log.append(state.event(number, {**tags, **reason}))

    def catch_up(self, states: Mapping[int, tuple[State, Mapping[str, str]]]) -> None:
        """Record the end of trials whose driver was killed after it had told only the study."""
        for number in self._log.open_trials():
            state, tags = states.get(number, (State.RUNNING, {}))
            if state.ended:
                self.ended(number, state, tags)
