"""What every reproduction is: something the paper shows, made again by one command.

A new file in this folder with a registered class joins the command by itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple

from tardis_core.registry import Registry


@dataclass(frozen=True)
class Request:
    """How something is to be reproduced."""

    scale: str
    folder: Path  # for all that is written; what a run that was stopped left there is used
    seed: int = 0
    device: str = "auto"
    data_dir: str | None = None
    data: str = "auto"


class Row(NamedTuple):
    """One thing that can be compared."""

    what: str
    ours: str
    paper: str  # its figure or its claim; empty where it has none, or where ours cannot be compared


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    rows: list[Row]
    verdict: str  # one or two sentences, only as strong as the runs allow
    measured_on: str  # data, runs, seeds: what the figures are of
    files: list[Path] = field(default_factory=list)  # in the folder; pictures are shown


class Reproduction(ABC):
    """The interface."""

    title: ClassVar[str]
    costs: ClassVar[Mapping[str, str]]  # what it takes at each scale, on two cores

    @abstractmethod
    def run(self, request: Request) -> Outcome:
        """Make it again, and write tables and pictures into the folder."""


REPRODUCTIONS: Registry[type[Reproduction]] = Registry("reproduction", "orchestrator.paper")
