"""The parts of a page, and the page as text. It knows nothing of sweeps.

The tables of a page are HTML. Its plots are drawn by the browser from numbers in the page, so that
ten thousand trials stay small, adapt to the width and to the colours of the reader, and answer the
pointer. `templates/` has the layout, the style, and one script per kind of plot.
"""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

TEMPLATE = "page.html.j2"
PLOTS = (
    "bars",
    "front",
    "intervals",
    "lines",
    "parallel",
    "points",
)  # each a script in templates/plots
SHORT, SHOWN = 30, 15  # rows of a table that is shown whole; of a longer one, before a button


@dataclass(frozen=True)
class Table:
    """Rows of text under headings; a column in which every cell is a number is aligned so."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    sortable: bool = False

    @property
    def shown(self) -> int:
        """How many rows are shown at first."""
        return len(self.rows) if len(self.rows) <= SHORT else SHOWN

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers."""
        columns = zip(*self.rows, strict=True)
        return [all(_is_number(cell) for cell in column) for column in columns]


@dataclass(frozen=True)
class Plot:
    """What one of the scripts draws."""

    kind: str  # one of PLOTS
    title: str
    values: Mapping[str, Any]  # as JSON, for the script
    height: int = 320  # pixels
    note: str = ""


@dataclass(frozen=True)
class Image:
    """A PNG file, which becomes part of the page."""

    title: str
    path: Path

    @property
    def data(self) -> str:
        """The file as text."""
        return base64.b64encode(self.path.read_bytes()).decode()


@dataclass(frozen=True)
class Code:
    """Text to copy, such as a command."""

    text: str


Part = Table | Plot | Image | Code


@dataclass(frozen=True)
class Section:
    """A heading, a sentence about it, and what it shows."""

    title: str
    parts: Sequence[Part] = ()
    note: str = ""
    folded: bool = False  # shown only when it is opened


@dataclass(frozen=True)
class Page:
    """A page from its headline to its last section."""

    title: str
    headline: str
    figures: Mapping[str, str]  # the few numbers that matter, by label
    facts: Mapping[str, str]  # where the results come from
    sections: Sequence[Section]
    warnings: Sequence[str] = field(default_factory=tuple)


def render(page: Page) -> str:
    """The page as HTML; everything that comes from users is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("orchestrator.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"kind_of": lambda part: type(part).__name__.lower()}
    parts = [part for section in page.sections for part in section.parts]
    used = {part.kind for part in parts if isinstance(part, Plot)}
    scripts = [f"plots/{name}.js" for name in PLOTS if name in used]
    return environment.get_template(TEMPLATE).render(page=page, scripts=scripts)


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return cell in ("-", "True", "False")
    return True


def rounded(values: Sequence[float | None]) -> list[float | None]:
    """Numbers for a plot: five significant digits are finer than any screen.

    JSON has neither NaN nor infinity: there is no point in such a place.
    """
    return [
        None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
        for value in values
    ]
