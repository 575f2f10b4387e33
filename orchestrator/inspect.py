"""Look inside a trained model: `python -m orchestrator.inspect RUN`.

The memory access of one example as a picture: which cells are read and written at each step, the
wormholes as arcs over the tokens, the RESET gates and the usage; and how short the wormholes make
the paths between steps.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from orchestrator.common.outputs import writing_to
from orchestrator.models import lookup
from orchestrator.tracking.mlflow_store import default_tracking_uri
from tardis_core.analysis.inspection import inspect_model
from tardis_core.cli import Parser, command


def parser() -> Parser:
    """The options of the command."""
    made = Parser(prog="python -m orchestrator.inspect", description=__doc__)
    lookup.add_options(made)
    made.add_argument("--example", type=int, default=0, help="number in the split (default: 0)")
    made.add_argument("--split", default="test", help="valid or test (default: test)")
    return made


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Find the model, draw, and say what was found."""
    options = parser().parse_args(arguments)
    split = lookup.split_named(options.split)
    model = lookup.find(options.run, options.tracking_uri or default_tracking_uri())
    task = model.task(options.data_dir, options.data)
    network = model.network(options.device)
    with writing_to(Path(options.out) if options.out else model.folder / "inspect") as folder:
        found = inspect_model(network, task, folder, model.title, split, options.example)
    print(f"{model.title}: {split} split, over {found.sequences} sequences")
    for name, value in found.metrics.items():
        print(f"  {name:<30}{value:>8.2f}")
    for path in found.plots:
        print(f"written to {path}")
    if run_id := lookup.record(model, {}, found.plots, "inspect"):
        print(f"recorded in the run {run_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
