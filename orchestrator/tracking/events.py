"""The events that a sweep records, and the line of text that each becomes."""

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["FINISHED", "KILLED", "FAILED"]


@dataclass(frozen=True)
class Event:
    """Something to record; its time, in milliseconds since 1970, is filled in by the log."""

    at: int = field(default=0, kw_only=True)


@dataclass(frozen=True)
class SweepStarted(Event):
    """A sweep starts, or is resumed."""

    name: str
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialStarted(Event):
    """A trial starts, or is resumed."""

    number: int
    params: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Metrics(Event):
    """What a trial measured at a step; a trial that had ended is running again."""

    number: int
    step: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class TrialPaused(Event):
    """A trial waits for its promotion, or for the end of the search; it has not ended."""

    number: int


@dataclass(frozen=True)
class TrialEnded(Event):
    """A trial is over; the tags `pruned`, `error` and `interrupted` say why."""

    number: int
    status: Status
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Artifact(Event):
    """A file or folder of a trial or of the sweep; it must stay in place until it is delivered."""

    number: int | None
    path: str
    artifact_path: str | None = None


@dataclass(frozen=True)
class Model(Event):
    """A saved MLflow model of a trial; it is registered if it beats the champion of its name."""

    number: int
    path: str  # the folder; it must stay in place until it is delivered
    name: str
    value: float
    better: str  # lower | higher
    tags: Mapping[str, str] = field(default_factory=dict)  # see `champion`
    description: str = ""  # of this model, for people
    family: str = ""  # what all models of the name are


@dataclass(frozen=True)
class SweepTags(Event):
    """Tags of the sweep that were not known when it started."""

    tags: Mapping[str, str]


@dataclass(frozen=True)
class SweepMetrics(Event):
    """The state of a sweep after a number of validations, which never becomes less."""

    step: int  # validations of all trials together
    values: Mapping[str, float]


@dataclass(frozen=True)
class SweepEnded(Event):
    """The sweep is over, and so is every trial that is still open."""

    status: Status


@dataclass(frozen=True)
class Controlled(Event):
    """A request of `orchestrator.control` was obeyed, or refused."""

    request: str  # its id: a request is answered once
    action: str
    trial: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    refused: str = ""  # why, in one sentence; empty if it was obeyed


KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__subclasses__()}


def encode(event: Event) -> bytes:
    """The event as a line of the log."""
    fields = {each.name: getattr(event, each.name) for each in dataclasses.fields(event)}
    match event:
        case Metrics(values=values) | SweepMetrics(values=values):
            fields["values"] = {name: _json_number(float(value)) for name, value in values.items()}
        case Artifact(path=path) | Model(path=path):
            fields["path"] = os.path.abspath(path)
    for name in {"tags", "params"} & fields.keys():
        fields[name] = {key: str(value) for key, value in fields[name].items()}
    for name in {"number", "step"} & fields.keys():
        fields[name] = None if fields[name] is None else int(fields[name])  # NumPy's too
    return json.dumps({"event": type(event).__name__, **fields}).encode() + b"\n"


def _json_number(value: float) -> float | str:
    # JSON has neither NaN nor infinity; `float` reads them from text.
    return value if math.isfinite(value) else str(value)


def decode(line: bytes) -> Event:
    """The inverse of `encode`; raises ValueError on anything else."""
    try:
        fields = json.loads(line)
        kind = KINDS[fields.pop("event")]
        if kind in (Metrics, SweepMetrics):
            fields["values"] = {name: float(value) for name, value in fields["values"].items()}
        return kind(**fields)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not an event: {line[:80]!r}") from error
