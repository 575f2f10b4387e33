"""The interface of a reproduction: a table or figure of the paper, made again by one command.

A new file in this folder with a registered class is found by the command.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple

from tardis_core.registry import Registry


@dataclass(frozen=True)
class Request:
    """The options of a reproduction."""

    scale: str
    folder: Path  # of all files; an interrupted run in it is continued
    seed: int = 0
    device: str = "auto"
    data_dir: str | None = None
    data: str = "auto"
    precision: str = "float32"  # of the matrix products of trainings for a table
    part: str | None = None  # of a reproduction that has several; None: all of them
    concurrency: int = 0  # maximum concurrent trainings for a table; 0: as many as fit


class Row(NamedTuple):
    """One number or claim: ours and the paper's."""

    what: str
    ours: str
    paper: str  # empty where it has none, or where ours cannot be compared with it


@dataclass(frozen=True)
class Outcome:
    """The result of a reproduction."""

    rows: list[Row]
    verdict: str  # one or two sentences, only as strong as the runs allow
    measured_on: str  # data, runs and seeds behind the numbers
    files: list[Path] = field(default_factory=list)  # in the folder; plots are shown in the summary


class Reproduction(ABC):
    """A table or figure of the paper."""

    title: ClassVar[str]
    costs: ClassVar[Mapping[str, str]]  # time at each scale, on two cores

    @classmethod
    def parts(cls, scale: str) -> Sequence[str]:
        """What can be reproduced by itself at a scale, in the order in which all of it is."""
        return ()

    @abstractmethod
    def run(self, request: Request) -> Outcome:
        """Reproduce it, and write tables and plots into the folder."""


REPRODUCTIONS: Registry[type[Reproduction]] = Registry("reproduction", "orchestrator.paper")
