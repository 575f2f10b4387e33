"""docs/howto/own-data.md: the task that it shows is found, trained, compared and searched."""

import importlib
import sys

import pytest

from orchestrator import compare, sample, sweep_command
from orchestrator.planning import dry_run
from tardis_core import train
from tardis_core.data.standin_text import make_text
from tardis_core.serving.base import PREDICTORS, load_predictor
from tardis_core.tasks.base import TASKS
from tests.support.shell_blocks import ROOT, blocks

PAGE = ROOT / "docs" / "howto" / "own-data.md"


@pytest.fixture
def mytext(tmp_path, monkeypatch):
    """The files of the page where the packages look for such files, and a folder with texts."""
    for registry in (TASKS, PREDICTORS):  # they look again, and forget it afterwards
        registry.names()
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
        monkeypatch.setattr(registry, "_imported", False)
    written = []
    for block in blocks(PAGE, "python"):
        path = block.partition("\n")[0].removeprefix("# ")
        package = path.rpartition("/")[0].replace("/", ".")
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(block)
        written.append(f"{package}.mytext")
        parent = importlib.import_module(package)
        monkeypatch.setattr(parent, "__path__", [*parent.__path__, str((tmp_path / path).parent)])
    for place, split in enumerate(("train", "valid", "test")):
        (tmp_path / f"{split}.txt").write_text("\n".join(make_text(400, seed=place)))
    monkeypatch.setattr(dry_run, "MEASURE_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    yield ["mytext", "--data-dir", str(tmp_path)]
    for name in written:
        sys.modules.pop(name, None)


def test_it_is_trained_and_answers(mytext, tmp_path, capsys):
    small = ["--set", "training.updates=2", "--set", "training.batch=4", "--set", "model.hidden=8"]
    assert train.main([*mytext, "--scale", "smoke", *small, "--out", "run"]) == 0
    assert f"data: mytext, the files in {tmp_path}" in capsys.readouterr().out
    answer = load_predictor(tmp_path / "run" / "best.pt").predict({"text": ["the "]}, length=5)
    assert len(answer["continuation"][0]) == 5
    assert sample.main(["run", "--prompt", "the ", "--length", "5"]) == 0


def test_it_is_compared_and_searched(mytext, capsys):
    assert compare.main([*mytext, "--smoke", "--seeds", "2", "--dry-run"]) == 0
    assert "6 trials of mytext" in capsys.readouterr().out
    assert sweep_command.main([*mytext, "--smoke", "--dry-run"]) == 0
    assert "tried first: 2\n" in capsys.readouterr().out


def test_what_is_missing_is_said(mytext, tmp_path, capsys):
    assert train.main(["mytext", "--scale", "smoke"]) == 2
    assert "mytext needs --data-dir DIR" in capsys.readouterr().err
    (tmp_path / "valid.txt").unlink()
    assert train.main([*mytext, "--scale", "smoke"]) == 2
    assert "valid.txt is missing" in capsys.readouterr().err
