"""Evaluate a trained model: `python -m orchestrator.evaluate RUN`.

Prints the metric of the task and what lies behind it: both heads for ptb, the cost by length up to
six times the training length for copy and recall, a confusion matrix for strokes and snli. The
results are written to the folder of the run and recorded in its MLflow run.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from orchestrator.common.outputs import writing_to
from orchestrator.models.arguments import out_parent, run_parent
from tardis_core.cli import Parser, command, evaluation_parent


def parser() -> Parser:
    """The options of the command."""
    return Parser(
        prog="python -m orchestrator.evaluate",
        description=__doc__,
        parents=[run_parent(), out_parent(), evaluation_parent()],
    )


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Find the model, evaluate it, write and record the results."""
    options = parser().parse_args(arguments)
    # Only now: torch and MLflow take seconds to import.
    from orchestrator.models import lookup
    from tardis_core.evaluation import evaluate_model, print_evaluation

    model = lookup.find(options.run, options.tracking_uri)
    evaluation = evaluate_model(model, options)
    print_evaluation(evaluation, options.json)
    with writing_to(Path(options.out) if options.out else model.folder / "evaluate") as folder:
        paths = evaluation.write(folder)
    run_id = lookup.record(model, evaluation.named_metrics(), paths, "evaluate")
    if not options.json:
        print(f"written to {paths[0].parent}")
        if run_id:
            print(f"recorded in the run {run_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
