"""python -m tardis_core.evaluate: the metrics of a run again, and one line for each error."""

import dataclasses
import json

import pytest
import torch

from tardis_core.build import build_network, build_task, load_data
from tardis_core.config import NO_ESTIMATOR
from tardis_core.evaluate import main
from tardis_core.tasks.copy import Copy
from tardis_core.train import main as train
from tardis_core.training import checkpoint
from tardis_core.training.run_folder import load_checkpoint

TINY = {
    "model.hidden": 8,
    "memory.cells": 4,
    "task.longest": 3,
    "task.valid_sequences": 8,
    "task.test_sequences": 8,
    "training.updates": 4,
    "training.evaluate_every": 2,
    "training.batch": 4,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "one"
    settings = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    assert train(["copy", "--scale", "smoke", "--out", str(folder), *settings]) == 0
    return folder


@pytest.mark.parametrize(("split", "name"), [("test", "test"), ("valid", "validation")])
def test_the_metrics_are_those_of_the_result(run, capsys, split, name):
    assert main([str(run), "--split", split, "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["bce"] == json.loads((run / "result.json").read_text())[name]["bce"]


def test_a_checkpoint_file_is_evaluated(run, capsys):
    assert main([str(run / "checkpoint.pt")]) == 0
    assert "seed 0, update 4: test split\n" in capsys.readouterr().out


def test_uniform_reads_are_those_of_urmann_with_the_same_weights(run, capsys):
    assert main([str(run), "--reads", "uniform", "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    values, config = load_checkpoint(run / "best.pt")
    task = build_task(config, load_data(config))
    other = build_network(
        dataclasses.replace(config, model="urmann", estimator=NO_ESTIMATOR), task.signature
    )
    kept = {k: v for k, v in values["network"].items() if k in other.state_dict()}
    cells = other.state_dict()["model.fixed_N2"]
    other.load_state_dict({**kept, "model.fixed_N2": cells})
    assert measured["bce"] == task.evaluate(other.eval(), "test")["bce"]
    assert main([str(run), "--reads", "uniform"]) == 0
    assert "uniform reads" in capsys.readouterr().out


def test_products_are_in_float32(run, monkeypatch):
    seen = []
    original = Copy.evaluate

    def evaluate(*arguments):
        seen.append(torch.backends.cudnn.rnn.fp32_precision)
        return original(*arguments)

    monkeypatch.setattr(Copy, "evaluate", evaluate)
    assert main([str(run), "--json"]) == 0
    assert seen == ["ieee"]


def test_another_number_of_cells_is_measured_and_said(run, capsys):
    cells = load_checkpoint(run / "best.pt")[1].settings()["memory.cells"]
    measured = []
    for words in ((), ("--cells", str(cells)), ("--cells", str(4 * cells))):
        assert main([str(run), *words, "--json"]) == 0
        measured.append(json.loads(capsys.readouterr().out)["bce"])
    assert measured[0] == measured[1] != measured[2]
    assert main([str(run), "--cells", "7"]) == 0
    assert "test split, 7 memory cells\n" in capsys.readouterr().out
    assert main([str(run), "--cells", "1"]) == 0
    assert "test split, 1 memory cell\n" in capsys.readouterr().out


def refused(capsys, *arguments):
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_errors_are_one_line(run, tmp_path, capsys):
    assert "there is no checkpoint" in refused(capsys, str(tmp_path / "nothing"))
    assert "choose from 'valid', 'test'" in refused(capsys, str(run), "--split", "train")
    assert "--cells must be at least 1, not 0" in refused(capsys, str(run), "--cells", "0")


def test_weights_that_do_not_fit_are_refused(run, tmp_path, capsys):
    values = checkpoint.load(run / "best.pt")
    values.pop("format")
    values["network"]["head.W_o.bias"] = torch.zeros(3)
    checkpoint.save(tmp_path / "other.pt", values)
    assert "no weights of its own configuration" in refused(capsys, str(tmp_path / "other.pt"))


def test_other_data_is_refused(run, tmp_path, capsys):
    values = checkpoint.load(run / "best.pt")
    values.pop("format")
    values["provenance"]["sha256"] = "0" * 64
    checkpoint.save(tmp_path / "other.pt", values)
    assert "was trained on copy (000000000000)" in refused(capsys, str(tmp_path / "other.pt"))
