"""Evaluate a trained model: `python -m tardis_core.evaluate RUN`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from tardis_core.cli import Parser, command, evaluation_parent


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(
        prog="python -m tardis_core.evaluate",
        description=__doc__,
        parents=[evaluation_parent()],
    )
    parser.add_argument("run", metavar="RUN", help="folder of a run, or checkpoint file")
    return parser


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Load, evaluate, print."""
    options = parser().parse_args(arguments)
    # Only now: torch takes seconds to import.
    from tardis_core.evaluation import evaluate_model, load_model, print_evaluation

    evaluation = evaluate_model(load_model(Path(options.run)), options)
    print_evaluation(evaluation, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
