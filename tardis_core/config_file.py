"""Options from a file: `--config FILE`, in YAML or JSON.

A file has the options of the command under their names, or it is the configuration of a run, as
`config.json` in the folder of a run and `best_config.json` in the report of a sweep. It is turned
into words of the command line, so that the parser checks it as if they had been typed.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tardis_core.cli import Parser
from tardis_core.errors import UserError
from tardis_core.text import error_line

NOT_OPTIONS = ("task", "set")
# Words for the configuration of a run, given the file's name without its suffix.
RunWords = Callable[[Mapping[str, Any], str], list[str]]


def add_config_option(parser: Parser) -> None:
    """Document `--config`, which `with_config` reads before the parser sees it."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="options from a YAML or JSON file, or the configuration of a run, such as the "
        "best_config.json of a sweep; options on the command line override it",
    )


def with_config(
    parser: Parser, arguments: Sequence[str] | None, run_words: RunWords
) -> Sequence[str]:
    """The arguments, preceded by what the file of `--config` says.

    Args:
        run_words: what the configuration of a run means to the command.
    """
    finder = Parser(add_help=False)
    finder.add_argument("--config")
    found, rest = finder.parse_known_args(arguments)
    if found.config is None:
        return rest
    values = read(Path(found.config))
    run = values.get("config", values)
    is_run = isinstance(run, Mapping) and "settings" in run
    if "config" in values and not is_run:
        raise UserError(
            f"config in {found.config} must be the configuration of a run with its settings, "
            f"not {run!r}; other options stand beside each other, without config"
        )
    words = run_words(run, Path(found.config).stem) if is_run else _words(values)
    typed_task = vars(parser.parse_args(rest)).get("task")
    task = [] if typed_task else [str(each) for each in (run.get("task"),) if each]
    return [*task, *words, *rest]


def read(path: Path) -> dict[str, Any]:
    """The file as a dictionary."""
    import yaml  # JSON is YAML, too

    try:
        values = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(
            f"--config must be a YAML or JSON file that can be read, and {path} is not one "
            f"({error_line(error)})"
        ) from error
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise UserError(f"--config must be a file with options by name, and {path} has none")
    return values


def _words(values: Mapping[str, Any]) -> list[str]:
    """Options by name as words; a list is joined by commas, true is a switch."""
    words = set_words(values.get("set") or {})
    for name, value in values.items():
        if name in NOT_OPTIONS or value is None or value is False:
            continue
        flag = f"--{name.replace('_', '-')}"
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words += [flag] if value is True else [flag, text]
    return words


def set_words(settings: Mapping[str, Any]) -> list[str]:
    """Settings as `--set KEY=VALUE`; `{"memory": {"cells": 8}}` is `{"memory.cells": 8}`."""
    if not isinstance(settings, Mapping):
        raise UserError(f"the settings of a --config file are KEY: VALUE, not {settings!r}")
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        inner = value if isinstance(value, Mapping) else {"": value}
        flat |= {f"{name}.{key}" if key else name: each for key, each in inner.items()}
    return [word for key, value in flat.items() for word in ("--set", f"{key}={value}")]
