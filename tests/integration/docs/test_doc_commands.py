"""Every command in the documentation works: it is run, smoke-sized, in a temporary folder.

`tests/support/doc_command_handling.py` says what makes a command small, and which few are not run
here, and why.
"""

import argparse
import ast
import importlib.util
import os
import re
import runpy
import shlex
import shutil
import sys
import uuid
from pathlib import Path

import pytest

from orchestrator.planning import dry_run
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import SweepStarted
from search_spaces.engine import probe
from tardis_core.train import main as train
from tests.support.doc_command_handling import (
    FEW_EXAMPLES,
    NOT_RUN,
    PLACEHOLDERS,
    REPLACED_VALUES,
    RUN_BY_ANOTHER_TEST,
    SMALL,
    entry_for,
    run_module,
)
from tests.support.mlflow_stores import fresh_sqlite
from tests.support.shell_blocks import PAGES, ROOT, Command, blocks, commands_of, every_command
from tests.support.sweep_logs import fill, make_plan

COMMANDS = every_command()
ELSEWHERE = [command for command in COMMANDS if entry_for(RUN_BY_ANOTHER_TEST, command.text)]
ONLY_PARSED = [command for command in COMMANDS if entry_for(NOT_RUN, command.text)]
RUN = [command for command in COMMANDS if command not in ELSEWHERE + ONLY_PARSED]
TRAINED = {"runs/ptb": "ptb", "runs/copy": "copy", "runs/copy-tardis-gumbel-small-seed0": "copy"}
PACKAGES = ("orchestrator", "tardis_core")

# Other tests of the same process have imported these modules before.
runs_modules = pytest.mark.filterwarnings(
    "ignore:.*found in sys.modules after import:RuntimeWarning"
)


def each_of(commands: list[Command]) -> pytest.MarkDecorator:
    """One test per command, named after its page and its text."""
    ids = [f"{command.place}: {command.text}" for command in commands]
    return pytest.mark.parametrize("command", commands, ids=ids)


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """The working folder of a reader who has trained and swept a little."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "data").mkdir()
    (folder / "docs").mkdir()
    shutil.copytree(ROOT / "examples", folder / "examples")
    for text in blocks(ROOT / "docs" / "howto" / "own-space.md", "python"):
        (folder / text.partition("\n")[0].removeprefix("# ")).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        uri = fresh_sqlite(folder, tmp_path_factory)
        for path, task in TRAINED.items():
            assert train([task, *small_options("tardis_core.train", task), "--out", path]) == 0
        for name in ("one", "two"):
            plan = make_plan(name, tracking_uri=uri)
            plan.save()
            log = EventLog(plan.folder)
            log.append(SweepStarted(name, {"data": "copy", "data.sha256": ""}))
            log.close()
            fill(plan, [0.5, 0.2, 0.3])
    return folder


@pytest.fixture
def here(lab, monkeypatch):
    """The lab as the current folder, without the network and the reader's environment."""
    monkeypatch.chdir(lab)
    monkeypatch.setenv("TARDIS_OFFLINE", "1")
    for name in ("TARDIS_DATA", "MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(dry_run, "MEASURE_SECONDS", 0.0)
    monkeypatch.setattr(probe, "PROBES", 40)  # in place of 200, of the same spaces
    return lab


def small_options(module: str, task: str) -> list[str]:
    """The options that make a command small."""
    options = SMALL.get(module, ())
    settings = FEW_EXAMPLES.get(task, ()) if "--set" in options else ()
    return [*options, *(word for setting in settings for word in ("--set", setting))]


def smoke_sized(command: Command) -> list[str]:
    """The arguments of `python -m MODULE`, with placeholders filled in, made small."""
    words = [PLACEHOLDERS.get(word, word) for word in command.words[3:]]
    for place, option in enumerate(words[:-1]):
        value = words[place + 1]
        words[place + 1] = REPLACED_VALUES.get(option, {}).get(value, value)
    if "--resume" in words:
        return words + (["--dry-run"] if "--dry-run" in SMALL.get(command.module, ()) else [])
    if "--sweeps" in words:
        return words
    task = next((word for word in words if word in FEW_EXAMPLES), "")
    words += small_options(command.module, task)
    if command.module == "tardis_core.train":
        words += ["--out", f"runs/{uuid.uuid4().hex}"]  # a run never replaces another
    return words


class ReplacedProcess(Exception):
    """The command would have replaced itself with another program."""


@each_of([command for command in RUN if command.module])
@runs_modules
def test_command_runs(command, here, monkeypatch, capfd):
    def replace_process(path, words, environment):
        raise ReplacedProcess(shlex.join(words))

    monkeypatch.setattr(os, "execve", replace_process)
    try:
        code = run_module(command.module, smoke_sized(command), monkeypatch)
    except ReplacedProcess as program:
        code = 0 if " -m mlflow server " in str(program) else 1
    assert code == 0, "".join(capfd.readouterr())


@each_of([command for command in RUN if not command.module])
def test_command_is_an_example_that_runs(command, here, monkeypatch):
    program, path, *arguments = command.words
    assert (program, path.partition("/")[0]) == ("python", "examples"), (
        f"{command.place} documents a command that is neither run nor in "
        f"doc_command_handling.py: {command.text}"
    )
    monkeypatch.setattr(sys, "argv", [path, *arguments, *SMALL.get(path, ())])
    runpy.run_path(path, run_name="__main__")


@each_of(ELSEWHERE)
def test_the_test_that_runs_the_command_exists(command):
    file, name = str(entry_for(RUN_BY_ANOTHER_TEST, command.text)).split("::")
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


class Accepted(BaseException):
    """The parser has accepted the arguments; nothing more is wanted."""


def check_arguments(module: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail unless the parser of the module accepts the arguments."""
    parse_args = argparse.ArgumentParser.parse_args

    def only_parse(parser, *words, **options):
        parse_args(parser, *words, **options)
        raise Accepted

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", only_parse)
    with pytest.raises(Accepted):
        run_module(module, arguments, monkeypatch)


@each_of([command for command in ONLY_PARSED + ELSEWHERE if command.module])
@runs_modules
def test_parser_accepts_the_arguments(command, here, monkeypatch):
    spec = importlib.util.find_spec(command.module)
    assert spec is not None
    assert spec.origin is not None
    ours = command.module.startswith(PACKAGES)
    benchmark = command.module.startswith("benchmarks.")
    # A benchmark without a parser takes only names, and would run.
    if ours or (benchmark and "parse_args" in Path(spec.origin).read_text()):
        words = [PLACEHOLDERS.get(word, word) for word in command.words[3:]]
        check_arguments(command.module, words, monkeypatch)


@each_of([command for command in ONLY_PARSED + ELSEWHERE if not command.module])
@runs_modules
def test_files_and_sweep_options_of_the_command_are_valid(command, monkeypatch):
    for word in command.words:
        if re.fullmatch(r"[\w-]+/[\w./-]+", word):
            assert (ROOT / word).exists(), word
    words = command.text.split()
    if words[0] == "make":
        assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text()
    elif "sweep" in words:
        options = words[words.index("sweep") + 1 :]
        check_arguments("orchestrator.sweep", options, monkeypatch)


@pytest.mark.parametrize("table", [RUN_BY_ANOTHER_TEST, NOT_RUN])
def test_every_entry_belongs_to_a_documented_command(table):
    documented = [command.text for command in COMMANDS]
    unused = [key for key in table if not any(entry_for({key: "x"}, text) for text in documented)]
    assert unused == []


def test_commands_are_read_as_a_shell_reads_them(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "Type `sudo .venv/bin/python -m one --x` but not `python -m ...`.\n"
        "```sh\nA=1 first 'two words' \\\n    --last   # why\nthis && that\nexport B=2\n```\n"
        "```\nno command\n```\n"
    )
    assert [command.words for command in commands_of(page)] == [
        ("first", "two words", "--last"),
        ("this",),
        ("that",),
        ("python", "-m", "one", "--x"),
    ]


def test_all_pages_are_read():
    assert {"README.md", "cluster.md", "copy.md"} <= {page.name for page in PAGES}
    assert len(COMMANDS) > 60
