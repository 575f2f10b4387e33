"""Look inside a trained model: `python -m orchestrator.inspect RUN`.

Plots the memory access of one example: the cells read and written at each step, the wormholes as
arcs over the tokens, the RESET gates and the usage; and the length of the paths between steps that
the wormholes shorten.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from orchestrator.common.outputs import writing_to
from orchestrator.models.arguments import out_parent, run_parent
from tardis_core.cli import Parser, command, data_parent, device_parent, split_parent


def parser() -> Parser:
    """The options of the command."""
    parents = [run_parent(), out_parent(), split_parent()]
    parser = Parser(
        prog="python -m orchestrator.inspect",
        description=__doc__,
        parents=[*parents, device_parent(), data_parent()],
    )
    parser.add_argument("--example", type=int, default=0, help="which sequence (default: 0)")
    return parser


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Find the model, draw it, and print how it uses its memory."""
    options = parser().parse_args(arguments)
    # Only now: torch and MLflow take seconds to import.
    from orchestrator.models import lookup
    from tardis_core.analysis.inspection import inspect_model

    model = lookup.find(options.run, options.tracking_uri)
    task = model.task(options.data_dir, options.data)
    network = model.network(options.device)
    with writing_to(Path(options.out) if options.out else model.folder / "inspect") as folder:
        inspection = inspect_model(
            network, task, folder, model.title, options.split, options.example
        )
    print(f"{model.title}: {options.split} split, over {inspection.sequences} sequences")
    for name, value in inspection.metrics.items():
        print(f"  {name:<30}{value:>8.2f}")
    for path in inspection.plots:
        print(f"written to {path}")
    if run_id := lookup.record(model, {}, inspection.plots, "inspect"):
        print(f"recorded in the run {run_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
