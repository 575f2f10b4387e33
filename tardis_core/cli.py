"""Shared by all commands: one-line errors with exit code 2, `--set`, and the data options."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tardis_core.errors import Diverged, UserError

SPLITS = ("valid", "test")
READS = ("own", "uniform")
EXIT_FAILED = 1  # every trial of a sweep failed
EXIT_USER_ERROR = 2
EXIT_DIVERGED = 3
EXIT_INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """Argument parser whose errors are one line, like all others."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see --help")


def setting(text: str) -> tuple[str, str]:
    """Read the KEY=VALUE of --set."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UserError(f"--set takes section.key=value, not {text!r}; for example memory.cells=32")
    return key.strip(), value.strip()


class SettingAction(argparse.Action):
    """Collects the KEY=VALUE of a repeatable `--set` in a dictionary."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        key, value = setting(values)
        setattr(namespace, self.dest, {**getattr(namespace, self.dest, {}), key: value})


def device_parent() -> Parser:
    """A parent parser with `--device`."""
    parent = Parser(add_help=False)
    parent.add_argument("--device", default="auto", help="auto, cpu, cuda or mps (default: auto)")
    return parent


def data_parent() -> Parser:
    """A parent parser with `--data-dir` and `--data`."""
    parent = Parser(add_help=False)
    group = parent.add_argument_group("data")
    group.add_argument("--data-dir", metavar="DIR", help="folder of the data (or TARDIS_DATA)")
    group.add_argument(
        "--data",
        default="auto",
        choices=("auto", "real", "standin"),
        help="real refuses a stand-in, standin asks for one (default: auto)",
    )
    return parent


def evaluation_parent() -> Parser:
    """A parent parser with the options of every command that evaluates a model."""
    parent = Parser(add_help=False, parents=[split_parent(), device_parent(), data_parent()])
    parent.add_argument(
        "--reads",
        default="own",
        choices=READS,
        help="uniform reads random cells instead of those that TARDIS chooses, which shows what "
        "its memory contributes (default: own)",
    )
    parent.add_argument(
        "--cache",
        type=int,
        metavar="N",
        help="also measure a language model with a continuous cache of the last N symbols",
    )
    parent.add_argument(
        "--theta",
        type=float,
        help="how strongly the cache prefers similar states (default: tuned on validation)",
    )
    parent.add_argument(
        "--lambda",
        type=float,
        dest="cache_weight",
        metavar="SHARE",
        help="share of the cache in the prediction (default: tuned on validation)",
    )
    parent.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parent


def split_parent() -> Parser:
    """A parent parser with `--split`."""
    parent = Parser(add_help=False)
    parent.add_argument(
        "--split", default="test", choices=SPLITS, help="part of the data (default: test)"
    )
    return parent


def command(main: Callable[[Sequence[str] | None], int]) -> Callable[..., int]:
    """Turn errors that the user can fix into one line and an exit code."""

    def wrapped(arguments: Sequence[str] | None = None) -> int:
        try:
            return main(arguments)
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            return EXIT_USER_ERROR
        except Diverged as error:
            print(f"diverged: {error}", file=sys.stderr)
            return EXIT_DIVERGED
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return EXIT_INTERRUPTED

    return wrapped
