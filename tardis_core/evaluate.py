"""Measure a trained model again: `python -m tardis_core.evaluate RUN`."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tardis_core.analysis.uniform_reads import with_uniform_reads
from tardis_core.build import build_task, load_data
from tardis_core.cli import Parser, command
from tardis_core.errors import UserError
from tardis_core.training.loop import pick_device
from tardis_core.training.run_folder import check_data, load_checkpoint, load_network

SPLITS = ("valid", "test")
READS = ("own", "uniform")


def parser() -> Parser:
    """The options of the command."""
    made = Parser(prog="python -m tardis_core.evaluate", description=__doc__)
    made.add_argument("run", help="the folder of a run (its best weights) or a checkpoint file")
    made.add_argument("--split", default="test", help="valid or test (default: test)")
    made.add_argument(
        "--reads",
        default="own",
        help="own, or uniform: cells drawn at random in place of those that TARDIS chooses, "
        "to see what its memory is worth (default: own)",
    )
    made.add_argument("--device", default="auto", help="auto, cpu, cuda or mps (default: auto)")
    made.add_argument("--data-dir", metavar="DIR", help="folder of the data (or TARDIS_DATA)")
    made.add_argument("--data", default="auto", help="auto, real or standin (default: auto)")
    made.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return made


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Load, measure, print."""
    options = parser().parse_args(arguments)
    if options.split not in SPLITS:
        raise UserError(f"--split must be one of {', '.join(SPLITS)}, not {options.split!r}")
    if options.reads not in READS:
        raise UserError(f"--reads must be one of {', '.join(READS)}, not {options.reads!r}")
    path = Path(options.run)
    values, config = load_checkpoint(path / "best.pt" if path.is_dir() else path)
    data = load_data(config, options.data_dir, options.data)
    task = build_task(config, data)
    provenance = task.provenance(config.task_settings, data)
    check_data(path, values.get("provenance", {}), provenance)
    network = load_network(values, config, path)
    if options.reads == "uniform":
        network = with_uniform_reads(network)
    measured = task.evaluate(network.to(pick_device(options.device)), options.split)
    if options.json:
        print(json.dumps({"split": options.split, "update": values["update"], **measured}))
        return 0
    print(
        f"{config.task}, {config.system}, scale {config.scale}, "
        f"seed {config.seed}: update {values['update']}, {options.split} split of {provenance.name}"
        f"{', uniform reads' if options.reads == 'uniform' else ''}"
    )
    for name, value in measured.items():
        print(f"  {name:<14}{value:>10.4f}  {task.metric.unit if name == task.metric.name else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
