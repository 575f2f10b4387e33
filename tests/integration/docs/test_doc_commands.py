"""Every command that the documentation shows works: it is run, smoke-sized, in a folder of its own.

`handling.py` says how: what makes a command small, and which few are not run here, and why.
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
from orchestrator.planning.options import parser as sweep_parser
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import SweepStarted
from tardis_core.train import main as train
from tests.support.doc_command_handling import (
    BY_ANOTHER_TEST,
    FEW_EXAMPLES,
    NOT_RUN,
    PLACEHOLDERS,
    SMALL,
    STANDIN,
    found_in,
)
from tests.support.mlflow_stores import fresh_sqlite
from tests.support.shell_blocks import PAGES, ROOT, Command, blocks, commands_of, every_command
from tests.support.sweep_logs import fill, make_plan

COMMANDS = every_command()
ELSEWHERE = [each for each in COMMANDS if found_in(BY_ANOTHER_TEST, each.text)]
ONLY_READ = [each for each in COMMANDS if found_in(NOT_RUN, each.text)]
RUN = [each for each in COMMANDS if each not in ELSEWHERE + ONLY_READ]
TRAINED = {"runs/ptb": "ptb", "runs/copy": "copy", "runs/copy-tardis-gumbel-small-seed0": "copy"}


def by_text(commands: list[Command]) -> pytest.MarkDecorator:
    """A test a command, called by the page and the command."""
    ids = [f"{each.place}: {each.text}" for each in commands]
    return pytest.mark.parametrize("command", commands, ids=ids)


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A working folder like that of a reader who has trained and swept a little."""
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
            assert train([task, *small("tardis_core.train", task), "--out", path]) == 0
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
    monkeypatch.chdir(lab)
    monkeypatch.setenv("TARDIS_OFFLINE", "1")
    for name in ("TARDIS_DATA", "MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(dry_run, "MEASURE_SECONDS", 0.0)
    return lab


def small(module: str, task: str) -> list[str]:
    """The words that make a command small."""
    few = FEW_EXAMPLES.get(task, ()) if "--set" in SMALL.get(module, ()) else ()
    return [*SMALL.get(module, ()), *(word for each in few for word in ("--set", each))]


def smoke_sized(command: Command) -> list[str]:
    """The arguments of `python -m MODULE`, with a reader's own names filled in, and made small."""
    words = [PLACEHOLDERS.get(word, word) for word in command.words[3:]]
    for place, word in enumerate(words[:-1]):
        if word == "--data":
            words[place + 1] = STANDIN.get(words[place + 1], words[place + 1])
    if "--resume" in words:
        return words + (["--dry-run"] if "--dry-run" in SMALL.get(command.module, ()) else [])
    if "--sweeps" in words:
        return words
    words += small(command.module, next((word for word in words if word in FEW_EXAMPLES), ""))
    if command.module == "tardis_core.train":
        words += ["--out", f"runs/{uuid.uuid4().hex}"]  # a run never takes the place of another
    return words


class Became(Exception):
    """The command would have become another program."""


def run_module(module: str, arguments: list[str], monkeypatch) -> int:
    """What `python -m MODULE ARGUMENTS` would exit with, in this process."""

    def become(path, words, environment):
        raise Became(shlex.join(words))

    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        return ending.code or 0
    except Became as other:
        return 0 if " -m mlflow server " in str(other) else 1
    return 0


@by_text([each for each in RUN if each.module])
@pytest.mark.filterwarnings("ignore:.*found in sys.modules after import:RuntimeWarning")
def test_it_runs(command, here, monkeypatch, capfd):
    code = run_module(command.module, smoke_sized(command), monkeypatch)
    assert code == 0, "".join(capfd.readouterr())


@by_text([each for each in RUN if not each.module])
def test_it_is_a_script_of_ours_that_runs(command, here, monkeypatch, capfd):
    program, path, *arguments = command.words
    assert (program, path.partition("/")[0]) == ("python", "examples"), (
        f"{command.place} shows a command that is neither run nor in handling.py: {command.text}"
    )
    monkeypatch.setattr(sys, "argv", [path, *arguments, *SMALL.get(path, ())])
    runpy.run_path(path, run_name="__main__")


@by_text(ELSEWHERE)
def test_the_test_that_runs_it_exists(command):
    file, name = found_in(BY_ANOTHER_TEST, command.text).split("::")
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


class Accepted(BaseException):
    """The parser has taken the arguments; nothing more is wanted."""


@by_text([each for each in ONLY_READ + ELSEWHERE if each.module])
@pytest.mark.filterwarnings("ignore:.*found in sys.modules after import:RuntimeWarning")
def test_its_own_parser_takes_the_arguments(command, here, monkeypatch, capfd):
    spec = importlib.util.find_spec(command.module)
    assert spec is not None
    if not spec.origin.startswith(str(ROOT)) or "parse_args" not in Path(spec.origin).read_text():
        return  # what is not ours, or takes only names
    parse = argparse.ArgumentParser.parse_args

    def only_parse(parser, *arguments, **named):
        parse(parser, *arguments, **named)
        raise Accepted

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", only_parse)
    monkeypatch.setattr(sys, "argv", [command.module, *command.words[3:]])
    with pytest.raises(Accepted):
        runpy.run_module(command.module, run_name="__main__", alter_sys=True)


@by_text([each for each in ONLY_READ + ELSEWHERE if not each.module])
def test_the_files_that_it_names_exist_and_its_sweep_is_one(command):
    for word in command.words:
        if re.fullmatch(r"[\w-]+/[\w./-]+", word):
            assert (ROOT / word).exists(), word
    words = command.text.split()
    if words[0] == "make":
        assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text()
    elif "sweep" in words:
        sweep_parser().parse_args(words[words.index("sweep") + 1 :])


@pytest.mark.parametrize("table", [BY_ANOTHER_TEST, NOT_RUN])
def test_no_table_has_an_entry_that_the_documentation_lost(table):
    shown = [command.text for command in COMMANDS]
    assert [key for key in table if not any(found_in({key: "x"}, text) for text in shown)] == []


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


def test_all_pages_are_looked_at():
    assert {"README.md", "cluster.md", "copy.md"} <= {page.name for page in PAGES}
    assert len(COMMANDS) > 60


def test_the_layer_of_the_readme_runs():
    names: dict = {}
    for text in blocks(ROOT / "README.md", "python"):
        exec(text, names)
    assert names["output"].shape == (8, 50, names["layer"].output_size)


def test_every_page_is_reached_from_the_readme():
    text = (ROOT / "README.md").read_text()
    assert [page.name for page in PAGES[1:] if f"({page.relative_to(ROOT)})" not in text] == []
    assert len(text.splitlines()) < 200
