"""`train --start-from RUN`: a new run with the weights of another one."""

import json
from pathlib import Path

import pytest
import torch

from tardis_core.config import make_config
from tardis_core.evaluation import load_model
from tardis_core.start_from import load_start
from tardis_core.train import main
from tardis_core.training import checkpoint
from tardis_core.training.loop import Trainer

TINY = {
    "model.hidden": 8,
    "memory.cells": 4,
    "task.longest": 3,
    "task.valid_sequences": 8,
    "task.test_sequences": 8,
    "training.batch": 4,
    "training.updates": 6,
    "training.evaluate_every": 3,
}


def words(settings):
    return [f"--set={key}={value}" for key, value in settings.items()]


@pytest.fixture
def first(tmp_path, monkeypatch) -> Path:
    """The folder of a run."""
    monkeypatch.chdir(tmp_path)
    assert main(["copy", "--scale", "smoke", "--seed", "3", "--out", "first", *words(TINY)]) == 0
    return Path("first")


def weights(path: Path) -> dict[str, torch.Tensor]:
    network: dict[str, torch.Tensor] = checkpoint.load(path)["network"]
    return network


def begun(first: Path, **settings) -> Trainer:
    """A training that starts from the run and has done nothing yet."""
    start = load_start(first)
    trainer = Trainer(start.changed(settings, seed=None), None)
    start.give_weights(trainer)
    return trainer


def test_it_starts_with_the_best_weights_and_a_new_optimiser(first):
    trainer = begun(first)
    best = weights(first / "best.pt")
    assert all(torch.equal(best[name], own) for name, own in trainer.network.state_dict().items())
    assert trainer.update == 0
    assert not trainer.history
    assert not trainer.optimizer.state


def test_its_settings_are_those_of_the_run_but_for_those_given(first):
    longer = {"task.longest": "5", "training.learning_rate": "0.001"}
    config = load_start(first).changed(longer, seed=9)
    expected = make_config("copy", scale="smoke", seed=9, overrides={**TINY, **longer})
    assert config == expected


def test_more_cells_keep_the_old_addresses(first):
    network = begun(first, **{"memory.cells": 7}).network
    old = weights(first / "best.pt")
    new = network.state_dict()
    assert torch.equal(new["model.address_KA"][:4], old["model.address_KA"])
    assert len(new["model.address_KA"]) == 7
    assert torch.equal(new["model.controller.W_h.weight"], old["model.controller.W_h.weight"])


def test_the_command_trains_a_run_of_its_own_and_records_where_it_started(first, capsys):
    more = ["--set", "memory.cells=6", "--set", "task.longest=4", "--out", "second"]
    assert main(["--start-from", "first", *more]) == 0
    update = checkpoint.load(first / "best.pt")["update"]
    assert f"started from first/best.pt, update {update}\n" in capsys.readouterr().out
    expected = {"source": "first/best.pt", "seed": 3, "update": update, "data": "copy"}
    for name in ("config.json", "result.json"):
        assert json.loads(Path("second", name).read_text())["started_from"] == expected
    assert load_model(Path("second")).title.endswith(", started from first/best.pt")
    assert json.loads((first / "result.json").read_text())["started_from"] is None


def test_a_run_that_started_from_another_is_resumed_exactly(first):
    """A checkpoint knows where its run started; the other run may be gone."""
    whole = begun(first)
    rows = list(whole.run())
    stopped = begun(first)
    next(stopped.run())
    for path in first.iterdir():
        path.unlink()
    resumed = Trainer(stopped.config, None)
    resumed.restore(stopped.state())
    again = [stopped.history[0], *resumed.run()]
    assert [row["valid_bce"] for row in again] == [row["valid_bce"] for row in rows]
    assert resumed.started_from == whole.started_from


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--start-from", "none"], "there is no checkpoint none"),
        (["recall", "--start-from", "first"], "is of task 'copy', not 'recall'"),
        (["--start-from", "first", "--resume", "first"], "leave out --out and --start-from"),
        (["--start-from", "first", "--set", "model.hidden=9"], "only memory.cells may change"),
        (["--start-from", "first", "--set", "memory.cell=9"], "did you mean memory.cells?"),
        (["--start-from", "first", "--seed", "-1"], "the seed must be from 0"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_writes_nothing(first, capsys, arguments, message):
    assert main([*arguments, "--out", "second"]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1
    assert not Path("second").exists()


def test_other_symbols_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = ["--set=model.hidden=8", "--set=training.batch=4", "--set=task.evaluation_symbols=500"]
    one = ["--set=training.updates=1", "--scale", "smoke", "--out", "first"]
    assert main(["ptb", "--data", "standin", *one, *small]) == 0
    values = checkpoint.load(Path("first/best.pt"))
    changed = {**values, "vocabulary": [*values["vocabulary"][:-1], "@"]}
    del changed["format"]
    checkpoint.save(Path("other.pt"), changed)
    capsys.readouterr()
    assert main(["--start-from", "other.pt", "--data", "standin", "--out", "second"]) == 2
    assert "whose symbols are not those of this data" in capsys.readouterr().err
