"""One command for everything: `tardis sweep ptb`, `tardis train copy`, `tardis status`."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from tardis_core import __version__
from tardis_core.cli import command
from tardis_core.errors import UserError


class Subcommand(NamedTuple):
    """A command that is imported when it is called."""

    main: str  # module:function
    parser: str
    help: str


COMMANDS = {
    "train": Subcommand(
        "orchestrator.commands:train",
        "orchestrator.commands:tracked_train_parser",
        "train one model",
    ),
    "sweep": Subcommand(
        "orchestrator.commands:sweep",
        "orchestrator.planning.arguments:search_parser",
        "search the settings of a task",
    ),
    "compare": Subcommand(
        "orchestrator.commands:compare",
        "orchestrator.planning.arguments:comparison_parser",
        "compare models and estimators over several seeds",
    ),
    **{
        name: Subcommand(f"orchestrator.{name}:main", f"orchestrator.{name}:parser", text)
        for name, text in {
            "status": "list the sweeps of this folder, or show one",
            "control": "stop, pause or resume a running sweep, or choose its next trial",
            "ui": "open the MLflow UI",
            "evaluate": "evaluate a trained model",
            "inspect": "plot what a model reads and writes",
            "sample": "generate text",
            "reproduce": "reproduce the paper's tables and figures",
            "doctor": "check a sweep, or the GPUs of a cluster",
        }.items()
    },
    "ngram": Subcommand("tardis_core.ngram:main", "tardis_core.ngram:parser", "n-gram baseline"),
    "completion": Subcommand(
        "orchestrator.completion:main",
        "orchestrator.completion:parser",
        "print the completion of bash or zsh",
    ),
}


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Call the subcommand with the rest of the arguments."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help"):
        print(_help())
        return 0
    if name == "--version":
        print(f"tardis-lab {__version__}")
        return 0
    if name not in COMMANDS:
        raise UserError(f"unknown command {name!r}; choose one of: {', '.join(COMMANDS)}")
    result: int = load(COMMANDS[name].main)(rest)
    return result


def load(target: str) -> Callable[..., Any]:
    """The function that `module:function` names."""
    module, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {each.help}" for name, each in COMMANDS.items()]
    return "\n".join(
        [
            "usage: tardis COMMAND [options]",
            "",
            *lines,
            "",
            "tardis COMMAND --help has the options of a command; tardis --version the version.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
