"""The data that a sweep was measured on, as tags of its run and as its event log has them."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from orchestrator.tracking.event_log import LOG, scan
from orchestrator.tracking.events import SweepStarted

NAME, REAL, SHA256 = "data", "data.real", "data.sha256"


class DataRecord(NamedTuple):
    """What identifies data."""

    name: str
    sha256: str
    real: bool

    @property
    def tags(self) -> dict[str, str]:
        """The record as tags."""
        return {NAME: self.name, REAL: str(self.real), SHA256: self.sha256}

    @classmethod
    def of_tags(cls, tags: Mapping[str, str]) -> "DataRecord":
        """The inverse of `tags`."""
        return cls(tags[NAME], tags[SHA256], tags.get(REAL) == "True")

    def __str__(self) -> str:
        return f"{self.name} ({self.sha256[:12]})" if self.sha256 else self.name


def recorded_data(folder: Path) -> list[DataRecord]:
    """The data of a sweep: several in the order of their use if an older version mixed them."""
    path = folder / LOG
    events = (event for event, _ in scan(path)) if path.exists() else ()
    starts = (event.tags for event in events if isinstance(event, SweepStarted))
    return list(dict.fromkeys(DataRecord.of_tags(tags) for tags in starts if SHA256 in tags))
