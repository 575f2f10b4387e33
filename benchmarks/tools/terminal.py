"""Draw the live view of a sweep as an SVG: what its terminal showed at one moment of its event log.

python -m orchestrator.sweep ptb --smoke --trials 16 --name small
python -m benchmarks.tools.terminal small --out docs/terminal-sweep.svg
"""

import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from orchestrator.execution.drawing import draw
from orchestrator.execution.progress import Snapshot, rows_of
from orchestrator.planning.plan import SweepPlan, load_plan
from orchestrator.tracking.event_log import LOG, scan
from orchestrator.tracking.events import Event, SweepStarted
from tardis_core.cli import Parser, command
from tardis_core.errors import UserError

LINES = 40
TITLE_WORDS = 4  # of the command: python -m orchestrator.sweep TASK


def moment(plan: SweepPlan, events: Sequence[Event], share: float) -> Snapshot:
    """The first moment at which this share of the sweep was done."""
    for count in range(1, len(events) + 1):
        rows = rows_of(events[:count], plan)
        now = Snapshot(plan, rows, (events[count - 1].at - events[0].at) / 1000)
        if now.done >= share * plan.trials:
            return now
    raise UserError(f"{plan.name} must have reached {share:.0%}; resume it, or give a lower --at")


def as_svg(now: Snapshot, columns: int, title: str) -> str:
    """The view as an SVG of one file."""
    console = Console(
        record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="256"
    )
    console.print(draw(now, columns, LINES))
    svg = console.export_svg(title=title, unique_id=now.plan.kind)
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # fonts from the web


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Find the moment, and write the figure."""
    parser = Parser(
        prog="python -m benchmarks.tools.terminal", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("name", help="name of a sweep or a comparison in this folder")
    parser.add_argument("--at", type=float, default=0.6, help="share of the sweep (default: 0.6)")
    parser.add_argument("--columns", type=int, default=130, help="width (default: 130)")
    parser.add_argument("--out", type=Path, required=True, help="SVG file to write")
    options = parser.parse_args(arguments)
    plan = load_plan(options.name)
    events = [event for event, _ in scan(plan.folder / LOG)]
    commands = [event.tags["command"] for event in events if isinstance(event, SweepStarted)]
    now = moment(plan, events, options.at)
    title = " ".join(commands[0].split()[:TITLE_WORDS])
    options.out.write_text(as_svg(now, options.columns, title))
    print(f"written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
