"""Text from a model of text: `python -m orchestrator.sample RUN --prompt "the " --length 500`."""

import sys
from collections.abc import Sequence

from orchestrator.models import lookup
from orchestrator.tracking.mlflow_store import default_tracking_uri
from tardis_core.cli import Parser, command
from tardis_core.errors import UserError
from tardis_core.serving.base import PREDICTORS
from tardis_core.serving.ptb import TextPredictor


def parser() -> Parser:
    """The options of the command."""
    made = Parser(prog="python -m orchestrator.sample", description=__doc__)
    made.add_argument("run", metavar="RUN", help=lookup.RUN_HELP)
    made.add_argument("--prompt", default="the ", help='how the text begins (default: "the ")')
    made.add_argument("--length", type=int, default=500, help="symbols to add (default: 500)")
    made.add_argument(
        "--temperature",
        type=float,
        default=0.7,
        help="1 draws as the model believes, less keeps to the likely (default: 0.7)",
    )
    made.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    made.add_argument("--device", default="auto", help="auto, cpu, cuda or mps (default: auto)")
    made.add_argument("--tracking-uri", default="", help="of MLflow (default: sqlite here)")
    return made


def _text_tasks() -> list[str]:
    return [name for name in PREDICTORS.names() if issubclass(PREDICTORS.get(name), TextPredictor)]


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Find the model, read the prompt, write on."""
    options = parser().parse_args(arguments)
    model = lookup.find(options.run, options.tracking_uri or default_tracking_uri())
    if model.config.task not in _text_tasks():
        raise UserError(
            f"text comes from a model of {' or '.join(_text_tasks())}, and {options.run} is of "
            f"{model.config.task}"
        )
    predictor = TextPredictor(
        model.config, model.network(options.device), model.values["vocabulary"]
    )
    made = predictor.predict(
        {"text": [options.prompt]},
        length=options.length,
        temperature=options.temperature,
        seed=options.seed,
    )
    print(f"{model.title}, temperature {options.temperature:g}", file=sys.stderr)
    print(options.prompt + made["continuation"][0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
