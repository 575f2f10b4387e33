"""The log of a sweep: append-only, on disk, and older than every process and server that uses it.

The log is the truth. A tracking server is a copy of it that catches up, from the place that the
cursor remembers; see `tracking.tracker`. Nothing is taken into the log twice, so a trial that is
retried or resumed may report the same steps again.

    tracking.jsonl          one event a line
    tracking.sent           how many bytes of it have been delivered
    tracking.damaged        what a broken disk left behind the last whole event, if it ever did
"""

import dataclasses
import fcntl
import logging
import os
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from orchestrator.tracking.events import (
    Event,
    Metrics,
    SweepEnded,
    SweepStarted,
    SweepTags,
    TrialEnded,
    TrialStarted,
    decode,
    encode,
)
from tardis_core.errors import UserError

LOG, CURSOR, DAMAGED = "tracking.jsonl", "tracking.sent", "tracking.damaged"

logger = logging.getLogger(__name__)


def scan(path: Path, offset: int = 0) -> Iterator[tuple[Event, int]]:
    """The events from `offset` on, each with the offset behind it, up to the first broken line."""
    with open(path, "rb") as file:
        file.seek(offset)
        for line in file:
            offset += len(line)
            try:
                if not line.endswith(b"\n"):
                    return
                event = decode(line)
            except ValueError:
                return
            yield event, offset


class _Recorded:
    """What the log holds already, so that nothing gets into it twice."""

    def __init__(self) -> None:
        self.open: dict[int | None, bool] = {}  # None stands for the sweep
        self._steps: dict[tuple[int, str], set[int]] = {}
        self._tags: dict[str, str] = {}

    def news(self, event: Event) -> Event | None:
        """What of the event is not recorded yet."""
        match event:
            case SweepStarted() if self.open.get(None) is True:
                return None
            case SweepEnded() if self.open.get(None) is False:
                return None
            case TrialStarted(number=number) if self.open.get(number) is True:
                return None
            case TrialEnded(number=number) if self.open.get(number) is False:
                return None
            case SweepTags(tags=tags):
                tags = {key: tag for key, tag in tags.items() if self._tags.get(key) != str(tag)}
                return dataclasses.replace(event, tags=tags) if tags else None
            case Metrics(number=number, step=step, values=values):
                values = {
                    name: value
                    for name, value in values.items()
                    if step not in self._steps.get((number, name), ())
                }
                return dataclasses.replace(event, values=values) if values else None
        return event

    def add(self, event: Event) -> None:
        """Remember an event that is in the log."""
        match event:
            case SweepStarted(tags=tags):
                self.open[None] = True
                self._tags |= tags
            case SweepTags(tags=tags):
                self._tags |= tags
            case SweepEnded():
                self.open[None] = False
            case TrialStarted(number=number):
                self.open[number] = True
            case TrialEnded(number=number):
                self.open[number] = False
            case Metrics(number=number, step=step, values=values):
                self.open[number] = True
                for name in values:
                    self._steps.setdefault((number, name), set()).add(step)


class EventLog:
    """The log of one sweep, in its folder; one process at a time may have it open."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.path = folder, folder / LOG
        self._lock = threading.RLock()
        # Unbuffered: what `append` has written outlives this process, however it ends.
        self._file = open(self.path, "ab+", buffering=0)  # noqa: SIM115
        try:
            lock_file(self._file, wait=False)
        except BlockingIOError:
            self._file.close()
            raise UserError(
                f"a sweep can run only once at a time, and the one in {folder} is running; "
                f"wait for it to end, or stop it"
            ) from None
        self._recorded, self._ends = _Recorded(), [0]
        self._load()

    def _load(self) -> None:
        for event, end in scan(self.path):
            self._recorded.add(event)
            self._ends.append(end)
        self._drop_torn_end()
        try:
            sent = int((self.folder / CURSOR).read_text())
        except (FileNotFoundError, ValueError):
            sent = 0  # sending twice is harmless
        # The offset up to which events have been delivered.
        self.sent = self._ends[bisect_right(self._ends, max(sent, 0)) - 1]

    def _drop_torn_end(self) -> None:
        """Cut off what a kill in the middle of a write left; more than that is kept aside."""
        self._file.seek(self.end)
        torn = self._file.read()
        if b"\n" in torn:
            with open(self.folder / DAMAGED, "ab") as aside:
                aside.write(torn)
            logger.warning("%s was damaged; the end of it is now in %s", self.path, aside.name)
        if torn:
            self._file.truncate(self.end)

    @property
    def end(self) -> int:
        """The offset behind the last event."""
        return self._ends[-1]

    @property
    def waiting(self) -> int:
        """How many events have not been delivered."""
        with self._lock:
            return len(self._ends) - bisect_right(self._ends, self.sent)

    def open_trials(self) -> list[int]:
        """The trials that have started and not ended."""
        with self._lock:
            open_ = self._recorded.open.items()
            return sorted(number for number, is_open in open_ if is_open and number is not None)

    def append(self, *events: Event) -> None:
        """Take in what is new of the events; they outlive this process from here on.

        A crash of the machine may take those of the last second, which `sync` has not seen; none of
        them has been sent, and the trials, resumed from their checkpoints, report them again.
        """
        with self._lock:
            for event in events:
                if isinstance(event, SweepEnded):
                    self._end_open_trials()
                news = self._recorded.news(event)
                if news is not None:
                    self._write(dataclasses.replace(news, at=news.at or time.time_ns() // 10**6))

    def _end_open_trials(self) -> None:
        # Nobody would come back to them, and they would seem to run for ever.
        for number in self.open_trials():
            self.append(TrialEnded(number, "KILLED", {"interrupted": "true"}))

    def _write(self, event: Event) -> None:
        line, written = encode(event), 0
        try:
            while written < len(line):
                written += self._file.write(line[written:]) or 0
        except OSError:
            self._file.truncate(self.end)  # a full disk: half a line must not stay
            raise
        self._recorded.add(decode(line))
        self._ends.append(self.end + len(line))

    def read(self, from_offset: int) -> Iterator[tuple[Event, int]]:
        """The events from an offset on, each with the offset behind it."""
        end = self.end
        for event, offset in scan(self.path, from_offset):
            if offset > end:
                return
            yield event, offset

    def sync(self) -> None:
        """Force the log to the disk, so that nothing is delivered that the log may forget."""
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


_OPEN: dict[Path, EventLog] = {}


def open_log(folder: Path) -> EventLog:
    """The log of a sweep's folder; whoever asks in this process gets the same one."""
    if folder.resolve() not in _OPEN:
        _OPEN[folder.resolve()] = EventLog(folder)
    return _OPEN[folder.resolve()]


def lock_file(file: BinaryIO, wait: bool) -> None:
    """Hold a file for this process alone until it is closed, or the process is gone."""
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
