"""Shared by all commands: one-line errors with exit code 2, `--set`, and the data options."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, NoReturn, TextIO

from tardis_core import plugins
from tardis_core.errors import Diverged, UserError
from tardis_core.stopping import stop_signals

SPLITS = ("valid", "test")
READS = ("own", "uniform")
EXIT_FAILED = 1  # every trial of a sweep failed
EXIT_USER_ERROR = 2
EXIT_DIVERGED = 3
EXIT_INTERRUPTED = 130
LONGEST_WORD = 400  # characters of a word in a message


class Parser(argparse.ArgumentParser):
    """Argument parser whose errors are one line, like all others."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        if "prog" in kwargs:
            kwargs["prog"] = as_typed(kwargs["prog"])
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see --help")


def as_typed(module_call: str) -> str:
    """`python -m orchestrator.sweep`, or `tardis sweep` in a process that began as `tardis`."""
    called_as_tardis = os.path.basename(sys.argv[0]) == "tardis"
    return re.sub(r"^python -m \w+\.", "tardis ", module_call) if called_as_tardis else module_call


def setting(text: str) -> tuple[str, str]:
    """Read the KEY=VALUE of --set."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UserError(f"--set takes section.key=value, not {text!r}; for example memory.cells=32")
    return key.strip(), value.strip()


def folder(text: str) -> str:
    """A folder that exists."""
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"must be a folder that exists, not {text[:200]!r}")
    return text


class SettingAction(argparse.Action):
    """Collects the KEY=VALUE of a repeatable `--set` in a dictionary; notes a `--set help`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if values == "help":
            namespace.set_help = True
            return
        key, value = setting(values)
        setattr(namespace, self.dest, {**getattr(namespace, self.dest, {}), key: value})


class PluginAction(argparse.Action):
    """Requests the file of a repeatable `--plugin` at once: other options may name its parts."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        plugins.request(values)
        setattr(namespace, self.dest, (*getattr(namespace, self.dest, ()), values))


def add_plugin_option(parser: argparse.ArgumentParser) -> None:
    """Add `--plugin`."""
    parser.add_argument(
        "--plugin",
        action=PluginAction,
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="a Python file that registers models, tasks or estimators of your own, repeatable "
        "(or TARDIS_PLUGINS)",
    )


def device_parent() -> Parser:
    """A parent parser with `--device`."""
    parent = Parser(add_help=False)
    parent.add_argument("--device", default="auto", help="auto, cpu, cuda or mps (default: auto)")
    return parent


def data_parent() -> Parser:
    """A parent parser with `--data-dir` and `--data`."""
    parent = Parser(add_help=False)
    group = parent.add_argument_group("data")
    group.add_argument(
        "--data-dir", type=folder, metavar="DIR", help="folder of the data (or TARDIS_DATA)"
    )
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
        "--cells",
        type=int,
        metavar="N",
        help="give TARDIS N memory cells in place of those it was trained with; further ones get "
        "random addresses",
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
    """Turn errors that the user can fix into one line and an exit code, and stop on signals."""

    def wrapped(arguments: Sequence[str] | None = None) -> int:
        with stop_signals.listening(last=True), surviving_output():
            code = _run(main, arguments)
        return code if stop_signals.number is None else stop_signals.exit_code

    return wrapped


def _run(main: Callable[[Sequence[str] | None], int], arguments: Sequence[str] | None) -> int:
    try:
        return main(arguments)
    except UserError as error:
        print(f"error: {shortened(str(error))}", file=sys.stderr)
        return EXIT_USER_ERROR
    except Diverged as error:
        print(f"diverged: {error}", file=sys.stderr)
        return EXIT_DIVERGED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def shortened(text: str) -> str:
    """The text with words that nobody would read to the end cut short."""
    return re.sub(rf"(\S{{{LONGEST_WORD}}})\S+", r"\1...", text)


class _Surviving:
    """A stream whose reader may go away, as `tee` does at Ctrl-C; the rest is then discarded."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._or_discarded():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._or_discarded():
            self._stream.flush()

    @contextmanager
    def _or_discarded(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            # The way of Python's documentation: the interpreter flushes the stream at its exit.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


@contextmanager
def surviving_output() -> Iterator[None]:
    """A context in which nothing fails because nobody reads the output any more."""
    out, err = _Surviving(sys.stdout), _Surviving(sys.stderr)
    with redirect_stdout(out), redirect_stderr(err):
        yield
        out.flush()
        err.flush()
