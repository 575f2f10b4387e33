"""What somebody asks of a running sweep: lines of a file in its folder, which the driver reads.

A file rather than a socket: it works from every machine that sees the folder, and a request
survives a kill of the driver. The driver answers each request with one event in the log.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from orchestrator.common.journal import append_whole, drop_torn_line
from orchestrator.planning.plan import new_id
from orchestrator.tracking.event_log import LOG, lock_file, scan
from orchestrator.tracking.events import Controlled, Event

REQUESTS = "control.jsonl"
ACTIONS = ("stop", "pause", "resume", "stop-trial", "enqueue")


@dataclass(frozen=True)
class Request:
    """One request; its fields are those of a line in the file."""

    action: str
    trial: int | None = None  # of stop-trial
    settings: dict[str, str] = field(default_factory=dict)  # of enqueue
    user: str = ""
    id: str = field(default_factory=new_id)

    def answer(self, refused: str = "") -> Controlled:
        """The event that says what became of the request."""
        return Controlled(self.id, self.action, self.trial, self.settings, self.user, refused)


def write(folder: Path, request: Request) -> None:
    """Add a request to the file of a sweep; it is on disk then."""
    with open(folder / REQUESTS, "ab+", buffering=0) as file:
        lock_file(file, wait=True)
        drop_torn_line(file)
        append_whole(file, json.dumps(asdict(request)).encode() + b"\n")
        os.fsync(file.fileno())


def read(folder: Path) -> list[Request]:
    """All requests of a sweep in their order; lines that are none are passed over.

    The file is opened every time, which makes a network file system look for changes.
    """
    try:
        lines = (folder / REQUESTS).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [request for line in lines if (request := _request(line)) is not None]


def _request(line: bytes) -> Request | None:
    try:
        request = Request(**json.loads(line))
    except (ValueError, TypeError):
        return None
    return request if _is_sound(request) else None


def _is_sound(request: Request) -> bool:
    """Whether the fields have the types that they should have: anybody may write the file."""
    if not isinstance(request.settings, dict):
        return False
    texts = (request.id, request.user, *request.settings, *request.settings.values())
    return (
        request.action in ACTIONS
        and all(isinstance(each, str) for each in texts)
        and (type(request.trial) is int) == (request.action == "stop-trial")
    )


def answers(folder: Path) -> dict[str, Controlled]:
    """The answers that the event log of a sweep has, by the ids of the requests."""
    path = folder / LOG
    events = (event for event, _ in scan(path)) if path.exists() else ()
    return {event.request: event for event in events if isinstance(event, Controlled)}


def is_paused(events: Iterable[Event]) -> bool:
    """Whether the last request to pause or to resume a sweep was to pause it."""
    obeyed = [each for each in events if isinstance(each, Controlled) and not each.refused]
    switches = [each.action for each in obeyed if each.action in ("pause", "resume")]
    return switches[-1:] == ["pause"]
