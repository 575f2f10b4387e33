"""Generate text with a trained model: `python -m orchestrator.sample RUN --prompt "the "`."""

import sys
from collections.abc import Sequence

from orchestrator.models.arguments import run_parent
from tardis_core.cli import Parser, command, device_parent
from tardis_core.errors import UserError


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(
        prog="python -m orchestrator.sample",
        description=__doc__,
        parents=[run_parent(), device_parent()],
    )
    parser.add_argument("--prompt", default="the ", help='start of the text (default: "the ")')
    parser.add_argument("--length", type=int, default=500, help="symbols to add (default: 500)")
    parser.add_argument(
        "--temperature",
        type=float,
        default=0.7,
        help="1 samples from the model's distribution, less prefers likely symbols (default: 0.7)",
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    return parser


def _text_tasks() -> list[str]:
    from tardis_core.serving.base import PREDICTORS
    from tardis_core.serving.ptb import TextPredictor

    return [name for name in PREDICTORS.names() if issubclass(PREDICTORS.get(name), TextPredictor)]


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Find the model, read the prompt, and continue it."""
    options = parser().parse_args(arguments)
    # Only now: torch and MLflow take seconds to import.
    from orchestrator.models import lookup
    from tardis_core.serving.ptb import TextPredictor

    model = lookup.find(options.run, options.tracking_uri)
    if model.config.task not in _text_tasks():
        raise UserError(
            f"only models of {' or '.join(_text_tasks())} generate text, and {options.run} is a "
            f"model of {model.config.task}"
        )
    predictor = TextPredictor(
        model.config, model.network(options.device), model.values["vocabulary"]
    )
    answer = predictor.predict(
        {"text": [options.prompt]},
        length=options.length,
        temperature=options.temperature,
        seed=options.seed,
    )
    print(f"{model.title}, temperature {options.temperature:g}", file=sys.stderr)
    print(options.prompt + answer["continuation"][0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
