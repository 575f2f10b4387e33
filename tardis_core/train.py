"""Train a model on a task: `python -m tardis_core.train copy`."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tardis_core import threads
from tardis_core.cli import (
    EXIT_INTERRUPTED,
    Parser,
    add_plugin_option,
    command,
    data_parent,
    device_parent,
    setting,
)
from tardis_core.config_file import add_config_option, set_words, with_config
from tardis_core.registry import ESTIMATOR_NAMES, MODEL_NAMES, TASK_NAMES
from tardis_core.scales import SCALES

EXAMPLES = """
examples:
  python -m tardis_core.train copy                              TARDIS with Gumbel-softmax
  python -m tardis_core.train ptb --model lstm --scale smoke    the baseline, in a minute
  python -m tardis_core.train recall --estimator reinforce --set estimator.gamma=0.9
  python -m tardis_core.train --resume runs/copy-tardis-gumbel-small-seed0
  python -m tardis_core.train --start-from runs/copy-tardis-gumbel-small-seed0 --set task.longest=30
  python -m tardis_core.train copy --set help                   all settings with their values
"""


def train_parser() -> Parser:
    """The options of the command."""
    parser = Parser(
        prog="python -m tardis_core.train",
        description=__doc__,
        epilog=EXAMPLES,
        parents=[device_parent(), data_parent()],
    )
    parser.add_argument("task", nargs="?", help=f"one of: {', '.join(TASK_NAMES.all())}")
    parser.add_argument("--model", help=f"one of: {', '.join(MODEL_NAMES.all())} (default: tardis)")
    parser.add_argument(
        "--estimator",
        help="how the gradient passes the discrete reads: "
        f"{', '.join(ESTIMATOR_NAMES.all())} (default: gumbel)",
    )
    parser.add_argument(
        "--scale",
        help=f"sizes and budget: {', '.join(SCALES)}; smoke takes a minute at most, small fits a "
        "laptop, paper has the paper's sizes (default: small)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting, repeatable; `--set help` lists all of them",
    )
    add_config_option(parser)
    add_plugin_option(parser)
    parser.add_argument(
        "--seed", type=int, help="seed of weights, noise and data order (default: 0)"
    )
    parser.add_argument(
        "--tensorboard",
        action="store_true",
        help="also write TensorBoard event files to the folder of the run",
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: a name in runs/)")
    parser.add_argument("--resume", metavar="DIR", help="resume the run in this folder")
    parser.add_argument(
        "--start-from",
        metavar="RUN",
        help="start a new run with the best weights of this one, and with its settings but for "
        "those given; of the sizes only memory.cells may change",
    )
    return parser


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Train or resume a run, and print its result."""
    options = parsed(arguments)
    threads.wait_passively()
    # Only now: torch takes seconds to import, and a wrong option needs none of it.
    from tardis_core import train_session

    if options.pop("help_settings"):
        train_session.print_settings(train_session.TrainOptions(**options).config())
        return 0
    run = train_session.train(train_session.TrainOptions(**options))
    return 0 if run.finished else EXIT_INTERRUPTED


def parsed(arguments: Sequence[str] | None, parser: Parser | None = None) -> dict[str, Any]:
    """The options by name, with the names of parts checked and `--set` as a dictionary."""
    parser = parser or train_parser()
    options = parser.parse_args(with_config(parser, arguments, _run_words))
    for names, name in (
        (TASK_NAMES, options.task),
        (MODEL_NAMES, options.model),
        (ESTIMATOR_NAMES, options.estimator),
    ):
        if name is not None:
            names.check(name)
    settings = dict(setting(text) for text in options.set if text != "help")
    values = {key: value for key, value in vars(options).items() if key not in ("config", "plugin")}
    return {**values, "set": settings, "help_settings": "help" in options.set}


def _run_words(run: Mapping[str, Any], name: str) -> list[str]:
    """The options that train the configuration of a run."""
    named = [(f"--{key}", run.get(key)) for key in ("model", "scale", "seed")]
    if run.get("estimator") not in (None, "none"):
        named.append(("--estimator", run["estimator"]))
    words = [word for flag, value in named if value is not None for word in (flag, str(value))]
    return words + set_words(run["settings"])


if __name__ == "__main__":
    sys.exit(main())
