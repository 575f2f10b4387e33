"""The paper's tables and figures again: `python -m orchestrator.reproduce NAME|all`."""

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from orchestrator.common import provenance
from orchestrator.common.outputs import writing_to
from orchestrator.execution import node
from orchestrator.paper.base import REPRODUCTIONS, Outcome, Request
from tardis_core.cli import Parser, command
from tardis_core.commands import data_options
from tardis_core.data.files import write_atomically
from tardis_core.errors import UserError
from tardis_core.scales import SCALES

ALL = "all"
EXAMPLES = """
examples:
  python -m orchestrator.reproduce --list                     what there is, and what it takes
  python -m orchestrator.reproduce figure-path-length         a simulation: seconds
  python -m orchestrator.reproduce all --scale smoke          does it all run?
"""


def parser() -> Parser:
    """The options of the command."""
    made = Parser(prog="python -m orchestrator.reproduce", description=__doc__, epilog=EXAMPLES)
    made.add_argument("name", nargs="?", help=f"one of: {ALL}, {', '.join(REPRODUCTIONS.names())}")
    made.add_argument("--list", action="store_true", help="what there is, and what it takes")
    made.add_argument(
        "--scale", default="small", help=f"of training: {', '.join(SCALES)} (default: small)"
    )
    made.add_argument(
        "--seed", type=int, default=0, help="of simulations and training (default: 0)"
    )
    made.add_argument("--out", metavar="DIR", help="folder of the results (default: in results/)")
    made.add_argument("--device", default="auto", help="auto, cpu, cuda or mps (default: auto)")
    made.add_argument("--data-dir", metavar="DIR", help="folder of the data (or TARDIS_DATA)")
    made.add_argument("--data", default="auto", help="auto, real or standin (default: auto)")
    return made


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Make one or all, one after the other, and write a summary."""
    options = parser().parse_args(arguments)
    if options.list:
        print(listing())
        return 0
    names = _names(options)
    home = Path(options.out or f"results/{options.scale}-seed{options.seed}")
    for name in names:
        print(f"{name}: {REPRODUCTIONS.get(name).title}", flush=True)
        with writing_to(home / name) as folder:
            folder.mkdir(parents=True, exist_ok=True)
        request = Request(
            options.scale,
            folder,
            options.seed,
            options.device,
            options.data_dir,
            options.data,
        )
        started = time.monotonic()
        outcome = REPRODUCTIONS.get(name)().run(request)
        text = summary(name, request, outcome, time.monotonic() - started)
        write_atomically(request.folder / "summary.md", text.encode())
        _print(outcome)
    write_atomically(home / "summary.md", _all_summaries(home).encode())
    print(f"written to {home}/summary.md")
    return 0


def listing() -> str:
    """The names with what they take at each scale."""
    names = REPRODUCTIONS.names()
    widest = max(map(len, names))
    lines = [f"{'':{widest}}  {'  '.join(f'{scale:<8}' for scale in SCALES)}"]
    for name in names:
        kind = REPRODUCTIONS.get(name)
        costs = "  ".join(f"{kind.costs[scale]:<8}" for scale in SCALES)
        lines.append(f"{name:{widest}}  {costs}  {kind.title}")
    return "\n".join([*lines, "times on two CPU cores; above a minute they are estimates"])


def _names(options: argparse.Namespace) -> list[str]:
    if options.name is None:
        names = ", ".join(REPRODUCTIONS.names())
        raise UserError(f"name what to reproduce: {ALL}, {names}; --list says what each takes")
    if options.scale not in SCALES:
        raise UserError(f"unknown scale {options.scale!r}; choose one of: {', '.join(SCALES)}")
    if options.name == ALL:
        return REPRODUCTIONS.names()
    REPRODUCTIONS.get(options.name)
    return [options.name]


def summary(name: str, request: Request, outcome: Outcome, seconds: float) -> str:
    """One reproduction as Markdown."""
    rows = [f"| {row.what} | {row.ours} | {row.paper} |" for row in outcome.rows]
    shown = [path for path in outcome.files if path.suffix == ".png"]
    # A link of Markdown ends at a space.
    links = [(path.stem, quote(str(path.relative_to(request.folder)))) for path in shown]
    versions = ", ".join(f"{package} {version}" for package, version in node.versions().items())
    options = ["--scale", request.scale, "--seed", str(request.seed)]
    options += data_options(request.data_dir, request.data)
    again = shlex.join(["python", "-m", "orchestrator.reproduce", name, *options])
    return "\n".join(
        [
            f"# {name}",
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
    """The summaries of a folder, also those of earlier calls, one under the other."""
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
