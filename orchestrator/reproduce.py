"""Reproduce the paper's tables and figures: `python -m orchestrator.reproduce NAME|all`."""

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args
from urllib.parse import quote

from orchestrator.common.outputs import writing_to
from orchestrator.paper.base import REPRODUCTIONS, Outcome, Request
from tardis_core.cli import Parser, command, data_parent, device_parent
from tardis_core.data.files import write_atomically
from tardis_core.errors import UserError, require
from tardis_core.registry import Names
from tardis_core.scales import SCALES
from tardis_core.training.schedule import TrainingConfig

ALL = "all"
REPRODUCTION_NAMES = Names("reproduction", "orchestrator.paper", "", "")
EXAMPLES = """
examples:
  python -m orchestrator.reproduce --list                     what can be reproduced, and its cost
  python -m orchestrator.reproduce figure-path-length         a simulation: seconds
  python -m orchestrator.reproduce all --scale smoke          a quick check that all of it runs
"""


def parser() -> Parser:
    """The parser of the command line."""
    parser = Parser(
        prog="python -m orchestrator.reproduce",
        description=__doc__,
        epilog=EXAMPLES,
        parents=[device_parent(), data_parent()],
    )
    add = parser.add_argument
    add("name", nargs="?", help=f"one of: {ALL}, {', '.join(REPRODUCTION_NAMES.all())}")
    add("--list", action="store_true", help="list what can be reproduced, its cost and its parts")
    add("--scale", default="small", choices=SCALES, help="scale of training (default: small)")
    add("--part", metavar="PART", help="only this part of a table, such as 512 of table-ptb")
    add("--seed", type=int, default=0, help="seed of simulations and training (default: 0)")
    add(
        "--precision",
        default=Request.precision,
        choices=get_args(TrainingConfig.__annotations__["precision"]),
        help="training.precision of the trainings of tables (default: float32)",
    )
    add(
        "--concurrency",
        type=int,
        default=0,
        metavar="N",
        help="maximum concurrent trainings for a table (default: as many as fit)",
    )
    add("--out", metavar="DIR", help="folder of the results (default: a name in results/)")
    return parser


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Reproduce one or all, one after the other, and write a summary."""
    options = parser().parse_args(arguments)
    if options.list:
        print(listing())
        return 0
    names = _names(options.name)
    _check_part(options)
    require(options.seed >= 0, f"--seed must be a whole number from 0, not {options.seed}")
    most = options.concurrency
    require(most >= 0, f"--concurrency must not be negative, not {most}")
    from tardis_core.training.loop import pick_device  # imports torch: after parsing

    pick_device(options.device)  # before anything is written
    home = Path(options.out or f"results/{options.scale}-seed{options.seed}")
    suffix = f"-{options.part}" if options.part else ""
    for name in names:
        print(f"{name}: {REPRODUCTIONS.get(name).title}", flush=True)
        _reproduce(name, _request(options, home / f"{name}{suffix}"))
    write_atomically(home / "summary.md", _all_summaries(home).encode())
    print(f"written to {home}/summary.md")
    return 0


def _request(options: argparse.Namespace, folder: Path) -> Request:
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return Request(
        scale=options.scale,
        folder=folder,
        seed=options.seed,
        device=options.device,
        data_dir=options.data_dir,
        data=options.data,
        precision=options.precision,
        part=options.part,
        concurrency=options.concurrency,
    )


def _reproduce(name: str, request: Request) -> None:
    started = time.monotonic()
    outcome = REPRODUCTIONS.get(name)().run(request)
    text = summary(name, request, outcome, time.monotonic() - started)
    write_atomically(request.folder / "summary.md", text.encode())
    _print(outcome)


def listing() -> str:
    """All names with their costs at each scale."""
    names = REPRODUCTIONS.names()
    widest = max(map(len, names))
    lines = [f"{'':{widest}}  {'  '.join(f'{scale:<8}' for scale in SCALES)}"]
    for name in names:
        kind = REPRODUCTIONS.get(name)
        costs = "  ".join(f"{kind.costs[scale]:<8}" for scale in SCALES)
        parts = kind.parts("paper")
        choices = f" [--part {', '.join(parts)}]" if parts else ""
        lines.append(f"{name:{widest}}  {costs}  {kind.title}{choices}")
    return "\n".join(
        [*lines, "times on two CPU cores; above a minute they are estimates; parts at scale paper"]
    )


def _names(name: str | None) -> list[str]:
    if name is None:
        names = ", ".join(REPRODUCTION_NAMES.all())
        raise UserError(f"name what to reproduce: {ALL}, {names}; --list shows what each costs")
    if name == ALL:
        return REPRODUCTION_NAMES.all()
    REPRODUCTION_NAMES.check(name)
    return [name]


def _check_part(options: argparse.Namespace) -> None:
    """Raise `UserError` for a part that the reproduction does not have at this scale."""
    if options.part is None:
        return
    parts = () if options.name == ALL else REPRODUCTIONS.get(options.name).parts(options.scale)
    if options.part not in parts:
        choices = f"choose one of: {', '.join(parts)}" if parts else "it has no parts"
        raise UserError(
            f"unknown part {options.part!r} of {options.name} at scale {options.scale}; {choices}"
        )


def summary(name: str, request: Request, outcome: Outcome, seconds: float) -> str:
    """One reproduction as Markdown."""
    from orchestrator.common import provenance
    from orchestrator.execution import node
    from tardis_core.commands import data_options

    rows = [f"| {row.what} | {row.ours} | {row.paper} |" for row in outcome.rows]
    shown = [path for path in outcome.files if path.suffix == ".png"]
    # A link of Markdown ends at a space.
    links = [(path.stem, quote(str(path.relative_to(request.folder)))) for path in shown]
    versions = ", ".join(f"{package} {version}" for package, version in node.versions().items())
    options = ["--part", request.part] if request.part else []
    options += ["--scale", request.scale, "--seed", str(request.seed)]
    options += data_options(request.data_dir, request.data)
    if request.precision != Request.precision:
        options += ["--precision", request.precision]
    again = shlex.join(["python", "-m", "orchestrator.reproduce", name, *options])
    return "\n".join(
        [
            f"# {name}" + (f", part {request.part}" if request.part else ""),
            "",
            f"{REPRODUCTIONS.get(name).title}. Scale {request.scale}: {outcome.measured_on}.",
            "",
            "| | ours | the paper |",
            "|---|---|---|",
            *rows,
            "",
            outcome.verdict,
            "",
            *(f"![{stem}]({link})" for stem, link in links),
            "",
            f"Made in {seconds:.0f} s on {provenance.hardware()} by `{again}`; commit "
            f"{provenance.git_commit()}; {versions}.",
            "",
        ]
    )


def _all_summaries(home: Path) -> str:
    """The summaries in a folder, including those of earlier calls, one after the other."""
    parts = []
    for path in sorted(home.glob("*/summary.md")):
        text = path.read_text()
        parts.append(text.replace("](", f"]({path.parent.name}/").replace("# ", "## ", 1))
    return "\n".join(["# Reproductions", "", *parts])


def _print(outcome: Outcome) -> None:
    for row in outcome.rows:
        paper = f"   (the paper: {row.paper})" if row.paper else ""
        print(f"  {row.what}: {row.ours}{paper}")
    print(f"  {outcome.verdict}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
