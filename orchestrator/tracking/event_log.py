"""The event log of a sweep: append-only, on disk, and the single source of truth.

A tracking server is a copy of the log that catches up from the offset in `tracking.sent`; see
`tracking.tracker`. Nothing is recorded twice, so a trial that is retried or resumed may report the
same steps again. Written by hand because no library gives an append-only file that survives a kill
at any byte, ignores repetitions, and needs no server.

    tracking.jsonl          one event per line
    tracking.sent           how many bytes of it have been delivered
    tracking.damaged        lines that could not be read, moved there by the doctor
"""

import dataclasses
import fcntl
import os
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from orchestrator.common.journal import (
    append_whole,
    damaged_lines,
    drop_torn_line,
    set_damage_aside,
)
from orchestrator.tracking.events import (
    Event,
    Metrics,
    SweepEnded,
    SweepMetrics,
    SweepStarted,
    SweepTags,
    TrialEnded,
    TrialPaused,
    TrialStarted,
    decode,
    encode,
)
from orchestrator.tracking.states import INTERRUPTED_TAG, State
from tardis_core.errors import UserError

LOG, CURSOR, DAMAGED = "tracking.jsonl", "tracking.sent", "tracking.damaged"


def scan(path: Path, offset: int = 0) -> Iterator[tuple[Event, int]]:
    """The events from `offset` on, each with the offset after it; damaged lines are passed over."""
    with open(path, "rb") as file:
        file.seek(offset)
        for line in file:
            offset += len(line)
            if line.endswith(b"\n") and (event := _event(line)) is not None:
                yield event, offset


def _event(line: bytes) -> Event | None:
    try:
        return decode(line)
    except ValueError:
        return None


def is_event(line: bytes) -> bool:
    """Whether a line of the log can be read."""
    return _event(line) is not None


class _Recorded:
    """What the log already holds, so that nothing is recorded twice."""

    def __init__(self) -> None:
        self.states: dict[int, State] = {}  # by trial
        self._paused: set[int] = set()  # trials that run, and wait for a promotion
        self._sweep_runs: bool | None = None  # None before its first start
        self._steps: dict[tuple[int, str], set[int]] = {}  # of the metrics of each trial
        self._of_sweep: dict[str, tuple[int, float]] = {}  # last step and value of its metrics
        self._tags: dict[str, str] = {}

    def news(self, event: Event) -> Event | None:
        """The part of the event that is not recorded yet."""
        match event:
            case SweepStarted() if self._sweep_runs is True:
                return None
            case SweepEnded() if self._sweep_runs is False:
                return None
            case TrialStarted(number=number) if self._goes_on(number):
                return None
            case TrialPaused(number=number) if not self._goes_on(number):
                return None
            case TrialEnded(number=number) if self._is_over(number):
                # One that was interrupted can end without being resumed.
                interrupted = self.states[number] is State.STOPPED
                return event if interrupted and State.from_event(event).ended else None
            case SweepTags(tags=tags):
                tags = {key: tag for key, tag in tags.items() if self._tags.get(key) != str(tag)}
                return dataclasses.replace(event, tags=tags) if tags else None
            case Metrics(number=number, step=step, values=values):
                values = self._unrecorded(number, step, values)
                return dataclasses.replace(event, values=values) if values else None
            case SweepMetrics(step=step, values=values):
                last = self._of_sweep
                values = {
                    key: each for key, each in values.items() if last.get(key) != (step, each)
                }
                return dataclasses.replace(event, values=values) if values else None
        return event

    def _unrecorded(self, number: int, step: int, values: Mapping[str, float]) -> dict[str, float]:
        return {
            name: value
            for name, value in values.items()
            if step not in self._steps.get((number, name), ())
        }

    def steps_of(self, number: int) -> set[int]:
        """The steps at which a trial was measured."""
        return set().union(*(steps for (trial, _), steps in self._steps.items() if trial == number))

    def _goes_on(self, number: int) -> bool:
        return self.states.get(number) is State.RUNNING and number not in self._paused

    def _is_over(self, number: int) -> bool:
        return self.states.get(number, State.RUNNING) is not State.RUNNING

    def add(self, event: Event) -> None:
        """Remember an event that is in the log."""
        match event:
            case SweepStarted(tags=tags):
                self._sweep_runs = True
                self._tags |= tags
            case SweepTags(tags=tags):
                self._tags |= tags
            case SweepEnded():
                self._sweep_runs = False
            case TrialStarted(number=number):
                self._set(number, State.RUNNING)
            case TrialPaused(number=number):
                self._paused.add(number)
            case TrialEnded(number=number):
                self._set(number, State.from_event(event))
            case Metrics(number=number, step=step, values=values):
                self._set(number, State.RUNNING)
                self._add_steps(number, step, values)
            case SweepMetrics(step=step, values=values):
                self._of_sweep |= {key: (step, value) for key, value in values.items()}

    def _set(self, number: int, state: State) -> None:
        self.states[number] = state
        self._paused.discard(number)

    def _add_steps(self, number: int, step: int, names: Iterable[str]) -> None:
        for name in names:
            self._steps.setdefault((number, name), set()).add(step)


class EventLog:
    """The log of one sweep, in its folder; only one process at a time can open it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.path = folder, folder / LOG
        self._lock = threading.RLock()
        # Unbuffered: what `append` has written survives this process, however it ends.
        self._file = open(self.path, "ab+", buffering=0)  # noqa: SIM115
        try:
            lock_log(self._file, folder)
        except UserError:
            self._file.close()
            raise
        self._recorded, self._ends = _Recorded(), [0]
        self._load()

    def _load(self) -> None:
        drop_torn_line(self._file)
        if lines := damaged_lines(self.path, is_event):
            self._file.close()
            raise UserError(
                f"{self.path} is damaged in line {lines[0]}, so that results are missing; rebuild "
                f"it with: python -m orchestrator.doctor {self.folder.name} --fix"
            )
        for event, end in scan(self.path):
            self._recorded.add(event)
            self._ends.append(end)
        try:
            sent = int((self.folder / CURSOR).read_text())
        except (FileNotFoundError, ValueError):
            sent = 0  # sending twice is harmless
        # The offset up to which events have been delivered, moved back to the end of one.
        self.sent = self._ends[bisect_right(self._ends, max(sent, 0)) - 1]

    @property
    def end(self) -> int:
        """The offset after the last event."""
        return self._ends[-1]

    @property
    def waiting(self) -> int:
        """How many events have not been delivered."""
        with self._lock:
            return len(self._ends) - bisect_right(self._ends, self.sent)

    def open_trials(self) -> list[int]:
        """The trials that have started and not ended."""
        with self._lock:
            states = self._recorded.states.items()
            return sorted(number for number, state in states if state is State.RUNNING)

    def trials(self) -> set[int]:
        """All trials of which anything is recorded."""
        with self._lock:
            return set(self._recorded.states)

    def state(self, number: int) -> State:
        """The state of a trial; running if nothing is known of it."""
        with self._lock:
            return self._recorded.states.get(number, State.RUNNING)

    def steps(self, number: int) -> int:
        """At how many steps a trial was measured."""
        with self._lock:
            return len(self._recorded.steps_of(number))

    def all_failed(self) -> bool:
        """Whether there are trials, and every one of them has failed."""
        with self._lock:
            return set(self._recorded.states.values()) == {State.FAILED}

    def ended_trials(self) -> list[int]:
        """The trials for which nothing is left to do: complete, pruned or failed."""
        with self._lock:
            return _ended(self._recorded.states)

    def append(self, *events: Event) -> None:
        """Record what is new of the events; from here on it survives this process.

        A crash of the machine can lose the events of the last second, before `sync`. None of them
        has been delivered, and the trials report them again when they resume from a checkpoint.
        """
        with self._lock:
            for event in events:
                if isinstance(event, SweepEnded):
                    self._end_open_trials()
                news = self._recorded.news(event)
                if news is not None:
                    self._write(dataclasses.replace(news, at=news.at or time.time_ns() // 10**6))

    def _end_open_trials(self) -> None:
        # Otherwise they would seem to run forever.
        for number in self.open_trials():
            self.append(State.STOPPED.event(number, {INTERRUPTED_TAG: "true"}))

    def _write(self, event: Event) -> None:
        line = encode(event)
        append_whole(self._file, line)
        self._recorded.add(decode(line))
        self._ends.append(self.end + len(line))

    def read(self, from_offset: int) -> Iterator[tuple[Event, int]]:
        """The events from an offset on, each with the offset after it."""
        end = self.end
        for event, offset in scan(self.path, from_offset):
            if offset > end:
                return
            yield event, offset

    def sync(self) -> None:
        """Flush the log to the disk, so that it never lacks what has been delivered."""
        os.fsync(self._file.fileno())

    def mark_sent(self, offset: int) -> None:
        """Remember that everything up to the offset has been delivered."""
        temporary = self.folder / f"{CURSOR}.new"
        temporary.write_text(str(offset))
        os.replace(temporary, self.folder / CURSOR)
        with self._lock:
            self.sent = offset

    def close(self) -> None:
        """Let another process open the log."""
        self._file.close()
        _OPEN.pop(self.folder.resolve(), None)


def set_log_damage_aside(folder: Path) -> int:
    """Move damaged lines of the log to a file of their own; returns how many there were.

    Everything is delivered again then: the offset of the cursor has lost its meaning.
    """
    with open(folder / LOG, "ab") as file:
        lock_log(file, folder)
        count = set_damage_aside(folder / LOG, is_event, folder / DAMAGED)
        if count:
            (folder / CURSOR).unlink(missing_ok=True)
    return count


_OPEN: dict[Path, EventLog] = {}


def open_log(folder: Path) -> EventLog:
    """The log in a sweep's folder; every caller in this process shares it."""
    if folder.resolve() not in _OPEN:
        _OPEN[folder.resolve()] = EventLog(folder)
    return _OPEN[folder.resolve()]


def ended_trials(folder: Path) -> list[int]:
    """`EventLog.ended_trials` of a log that another process may have open."""
    path, recorded = folder / LOG, _Recorded()
    for event, _ in scan(path) if path.exists() else ():
        recorded.add(event)
    return _ended(recorded.states)


def _ended(states: Mapping[int, State]) -> list[int]:
    return sorted(number for number, state in states.items() if state.ended)


def lock_log(file: BinaryIO | FileIO, folder: Path) -> None:
    """Lock the log of a sweep; `UserError` if another process has it open."""
    try:
        lock_file(file, wait=False)
    except BlockingIOError:
        raise UserError(
            f"a sweep can run only once at a time, and the one in {folder} is running; "
            f"wait for it to end, or stop it"
        ) from None


def lock_file(file: BinaryIO | FileIO, wait: bool) -> None:
    """Lock a file for this process until it closes the file or ends."""
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
