"""The progress of a sweep as a person sees it on a terminal of any size."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.execution.progress import Snapshot
from orchestrator.tracking.states import State
from tardis_core.text import duration

MOST_LEADERS, MOST_RUNNING, MOST_FAILURES = 6, 8, 3
TRIAL_BAR, WIDE = 20, 60  # columns
BAR_STYLE = "cyan"  # rich's own is red, which looks like an error


def draw(now: Snapshot, width: int, height: int) -> RenderableType:
    """The live view: overall progress, running trials, leaders and failures, as fits."""
    room = height - 4  # below the bar, two lines of text and the cursor
    columns = now.leaders(width, max(0, min(MOST_LEADERS, room - 1)))
    room -= len(columns[0]) if columns else 0
    failed = [number for number, row in now.rows.items() if row.state is State.FAILED]
    failed = failed[-max(0, min(MOST_FAILURES, room)) :] if room > 0 else []
    running = [number for number, row in now.rows.items() if row.state is State.RUNNING]
    running = running[: max(0, min(MOST_RUNNING, room - len(failed)))]
    room -= len(failed) + len(running)
    blocks: list[list[RenderableType]] = [
        _head(now, width),
        [_running(now, running)] if running else [],
        [_table(now, columns)] if columns else [],
        [
            _line(f"{now.plan.title(number)} failed: {now.rows[number].reason}", "red")
            for number in failed
        ],
    ]
    return Group(*_spaced([block for block in blocks if block], room))


def _spaced(blocks: Sequence[list[RenderableType]], room: int) -> list[RenderableType]:
    """The blocks, with an empty line between them if there is room for all of these."""
    gap = [Text("")] if room >= len(blocks) - 1 else []
    first, *others = blocks
    return [*first, *(part for block in others for part in (*gap, *block))]


def draw_end(now: Snapshot, width: int) -> RenderableType:
    """What stays of the live view when a sweep has ended or stopped."""
    return Group(*_head(now, width))


def _head(now: Snapshot, width: int) -> list[RenderableType]:
    return [_overall(now, width), _line(now.summary()), _line(now.best(), "bold")]


def _overall(now: Snapshot, width: int) -> RenderableType:
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True)
    bar = ProgressBar(total=now.plan.trials, completed=now.done, complete_style=BAR_STYLE)
    grid.add_row(bar, _pace(now) if width >= WIDE else _share(now))
    return grid


def _pace(now: Snapshot) -> str:
    rate = 60 * now.new_results / now.seconds if now.seconds else 0.0
    return _share(now) + (f", {rate:,.{0 if rate >= 10 else 1}f} results/min" if rate else "")


def _share(now: Snapshot) -> str:
    return f"{now.done / now.plan.trials:.0%} in {duration(now.seconds)}"


def _running(now: Snapshot, numbers: Sequence[int]) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    for _ in range(4):
        grid.add_column(no_wrap=True, overflow="ellipsis")
    for number in numbers:
        row, total = now.rows[number], now.plan.reports_of(number)
        value = "" if row.value is None else f"{now.plan.metric} {row.value:.4f}"
        bar = ProgressBar(
            total=total, completed=row.results, width=TRIAL_BAR, complete_style=BAR_STYLE
        )
        grid.add_row(now.plan.title(number), bar, now.results_of(number), value)
    return grid


def _table(now: Snapshot, columns: Sequence[Sequence[str]]) -> RenderableType:
    """The leaders; those that were stopped early are faint."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for head, *_ in columns:
        table.add_column(head, justify="right", no_wrap=True, overflow="ellipsis")
    cells = zip(*(column[1:] for column in columns), strict=True)
    for number, row in zip(now.ranked(), cells, strict=False):
        pruned = now.rows[number].state is State.PRUNED
        table.add_row(*(Text(cell) for cell in row), style="dim" if pruned else "")
    return table


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")
