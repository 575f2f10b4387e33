"""The sweeps of this folder, or one of them in detail: `python -m orchestrator.status [NAME]`."""

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tardis_core.cli import EXIT_USER_ERROR, Parser, command

if TYPE_CHECKING:
    from orchestrator.execution.status import SweepStatus

WITHOUT_TERMINAL = 1000  # characters of a line: no row is broken for a script
HEADS = ("sweep", "task", "scale", "state", "trials", "metric", "best", "last event")


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(prog="python -m orchestrator.status", description=__doc__)
    parser.add_argument("name", nargs="?", help="name of a sweep (default: list all of them)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Read the event logs and print what they say."""
    options = parser().parse_args(arguments)
    from orchestrator.execution import status
    from orchestrator.planning.plan import load_plan

    if options.name:
        one = status.status_of(load_plan(options.name))
        print(json.dumps(one.as_json())) if options.json else _print_one(one)
        return 0
    every, errors = status.all_here()
    if options.json:
        print(json.dumps([each.as_json() for each in every]))
    elif every:
        _print_all(every)
    elif not errors:
        print("no sweeps here; start one with: python -m orchestrator.sweep ptb --smoke")
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    return EXIT_USER_ERROR if errors else 0


def _print_all(every: Sequence["SweepStatus"]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in HEADS:
        right = head in ("trials", "best", "last event")
        # Of a row that is too long for the terminal, the name is broken and nothing is cut off.
        table.add_column(
            head, justify="right" if right else "left", no_wrap=head != "sweep", overflow="fold"
        )
    for each in every:
        table.add_row(*_cells(each))
    Console(highlight=False, width=None if sys.stdout.isatty() else WITHOUT_TERMINAL).print(table)


def _cells(status: "SweepStatus") -> list[str]:
    plan, values = status.plan, status.as_json()
    trials = f"{values['trials']['ended']}/{plan.trials}"
    best = "" if values["best"] is None else f"{values['best']:.4f}"
    cells = [plan.name, plan.task, plan.scale, status.state, trials, plan.metric, best]
    return [*cells, _ago(status.updated)]


def _ago(moment: float | None) -> str:
    from tardis_core.text import duration

    return "" if moment is None else f"{duration(time.time() - moment)} ago"


def _print_one(status: "SweepStatus") -> None:
    from rich.console import Console

    from orchestrator.execution.drawing import draw

    plan, console = status.plan, Console(highlight=False, soft_wrap=False)
    console.print(
        f"sweep {plan.name}: {plan.size}, scale {plan.scale}, {status.state}, "
        f"last event {_ago(status.updated) or 'never'}"
    )
    console.print(draw(status.progress, console.width, 10**6))
    module = "sweep" if plan.kind == "search" else "compare"
    unfinished = status.progress.ended < plan.trials
    if status.state in ("stopped", "killed") or (status.state in ("failed", "new") and unfinished):
        console.print(f"resume:   python -m orchestrator.{module} --resume {plan.name}")


if __name__ == "__main__":
    sys.exit(main())
