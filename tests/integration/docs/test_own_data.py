"""docs/howto/own-data.md: its task can be trained, served, compared and searched."""

import importlib
import sys

import pytest

from orchestrator.planning import dry_run
from tardis_core.data.standin_text import make_text
from tardis_core.serving.base import PREDICTORS, load_predictor
from tardis_core.tasks.base import TASKS
from tests.support.doc_command_handling import run_module
from tests.support.shell_blocks import ROOT, blocks

PAGE = ROOT / "docs" / "howto" / "own-data.md"
TINY = ["--set", "training.updates=2", "--set", "training.batch=4", "--set", "model.hidden=8"]

pytestmark = pytest.mark.filterwarnings("ignore:.*found in sys.modules after import:RuntimeWarning")


@pytest.fixture
def mytext(tmp_path, monkeypatch):
    """Put the page's files where the packages find them, and texts into a folder."""
    for registry in (TASKS, PREDICTORS):  # they look again, and forget the task afterwards
        registry.names()
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
        monkeypatch.setattr(registry, "_imported", False)
    modules = []
    for block in blocks(PAGE, "python"):
        path = block.partition("\n")[0].removeprefix("# ")
        package = path.rpartition("/")[0].replace("/", ".")
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(block)
        modules.append(f"{package}.mytext")
        parent = importlib.import_module(package)
        monkeypatch.setattr(parent, "__path__", [*parent.__path__, str((tmp_path / path).parent)])
    for seed, split in enumerate(("train", "valid", "test")):
        (tmp_path / f"{split}.txt").write_text("\n".join(make_text(400, seed=seed)))
    monkeypatch.setattr(dry_run, "MEASURE_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    yield ["mytext", "--data-dir", str(tmp_path)]
    for name in modules:
        sys.modules.pop(name, None)


@pytest.fixture
def run(monkeypatch):
    """Run `python -m MODULE ARGUMENTS`; returns the exit code."""

    def run(module: str, *arguments: str) -> int:
        return run_module(module, list(arguments), monkeypatch)

    return run


def test_the_task_can_be_trained_and_served(mytext, run, tmp_path, capsys):
    assert run("tardis_core.train", *mytext, "--scale", "smoke", *TINY, "--out", "run") == 0
    assert f"data: mytext, the files in {tmp_path}" in capsys.readouterr().out
    answer = load_predictor(tmp_path / "run" / "best.pt").predict({"text": ["the "]}, length=5)
    assert len(answer["continuation"][0]) == 5
    assert run("orchestrator.sample", "run", "--prompt", "the ", "--length", "5") == 0


def test_the_task_can_be_compared_and_searched(mytext, run, capsys):
    assert run("orchestrator.compare", *mytext, "--smoke", "--seeds", "2", "--dry-run") == 0
    assert "6 trials of mytext" in capsys.readouterr().out
    assert run("orchestrator.sweep", *mytext, "--smoke", "--dry-run") == 0
    assert "tried first: 2\n" in capsys.readouterr().out


def test_missing_files_are_reported(mytext, run, tmp_path, capsys):
    assert run("tardis_core.train", "mytext", "--scale", "smoke") == 2
    assert "mytext needs --data-dir DIR" in capsys.readouterr().err
    (tmp_path / "valid.txt").unlink()
    assert run("tardis_core.train", *mytext, "--scale", "smoke") == 2
    assert "valid.txt is missing" in capsys.readouterr().err
