"""`python -m tardis_core.train`, from the command line to the files; and all that may be wrong."""

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tardis_core import train_progress, train_session
from tardis_core.config import config_from_dict, make_config
from tardis_core.tasks.base import TASKS
from tardis_core.train import main
from tardis_core.training import checkpoint

FILES = ["best.pt", "checkpoint.pt", "config.json", "metrics.csv", "result.json"]
TINY = {
    "model.hidden": 8,
    "memory.cells": 4,
    "task.longest": 3,
    "task.valid_sequences": 8,
    "task.test_sequences": 8,
    "training.batch": 4,
    "training.updates": 12,
    "training.evaluate_every": 4,
}
LSTM = [f"--set={key}={value}" for key, value in TINY.items() if key != "memory.cells"]
SETTINGS = [*LSTM, "--set", "memory.cells=4"]
SHORT = ["--set", "training.updates=1"]  # should a wrong command be accepted


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    """An empty folder to run in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TARDIS_DATA", raising=False)
    return tmp_path


def tree(folder: Path) -> dict[str, bytes | None]:
    """All that lies below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


# What works


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        (["copy", *SETTINGS], "copy-tardis-gumbel-smoke-seed0"),
        (["recall", *SETTINGS], "recall-tardis-gumbel-smoke-seed0"),
        (["copy", *SETTINGS, "--estimator", "reinforce"], "copy-tardis-reinforce-smoke-seed0"),
        (["recall", *LSTM, "--model", "lstm", "--seed", "5"], "recall-lstm-smoke-seed5"),
    ],
)
def test_a_run_writes_its_files_and_says_where(here, capsys, arguments, folder):
    assert main([*arguments, "--scale", "smoke"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert sorted(os.listdir(here / "runs" / folder)) == FILES
    assert f"written to runs/{folder}: " in said.out
    assert f"python -m tardis_core.evaluate runs/{folder}" in said.out


def test_the_command_to_evaluate_finds_the_same_data(here, capsys):
    small = ["--set=model.hidden=8", "--set=training.batch=4", "--set=task.evaluation_symbols=500"]
    words = ["ptb", "--scale", "smoke", *SHORT, *small, "--data", "standin", "--out", "a run"]
    assert main([*words, "--data-dir", str(here)]) == 0
    last = capsys.readouterr().out.splitlines()[-1].removeprefix("evaluate: ")
    assert shlex.split(last)[2:] == [
        *("tardis_core.evaluate", "a run", "--data-dir", str(here), "--data", "standin")
    ]


def test_the_lines_of_a_run(capsys):
    assert main(["copy", "--scale", "smoke", *SETTINGS]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("copy: tardis with gumbel, ")
    assert lines[0].endswith(
        "parameters, scale smoke (change with --scale), seed 0, on cpu with 1 thread"
    )
    assert lines[1].startswith("data: copy, ")
    assert [line.split()[1] for line in lines[2:5]] == ["4/12", "8/12", "12/12"]
    assert all(" loss 0." in line and " valid bce 0." in line for line in lines[2:5])
    assert [line.split()[0] for line in lines[6:9]] == ["split", "validation", "test"]


def test_what_is_printed_is_what_is_written(here, capsys):
    assert main(["copy", "--scale", "smoke", *SETTINGS, "--out", "run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    result = json.loads((here / "run" / "result.json").read_text())
    for split in ("validation", "test"):
        assert f"{split:<12}{result[split]['bce']:>10.4f}" in lines
    assert result["updates"] == 12
    assert config_from_dict(result["config"]) == make_config("copy", scale="smoke", overrides=TINY)


def test_without_a_terminal_a_line_is_printed_at_least_every_minute(here, capsys, monkeypatch):
    seconds = itertools.count(step=25)  # every look at the clock

    class Clock:
        perf_counter = staticmethod(lambda: float(next(seconds)))

    monkeypatch.setattr(train_progress, "time", Clock)
    assert main(["copy", "--scale", "smoke", *SETTINGS, "--out", "run"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("update ")]
    validated = [line for line in lines if "valid bce" in line]
    between = [line for line in lines if "valid bce" not in line]
    assert len(validated) == 3
    assert len(between) >= 2
    assert all("loss " in line and line.endswith(" left") for line in between)
    numbers = [int(line.split()[1].split("/")[0]) for line in lines]
    assert numbers == sorted(set(numbers))  # one line per update at most


def test_config_json_is_the_run(here):
    assert main(["copy", "--scale", "smoke", *SETTINGS, "--seed", "7", "--out", "run"]) == 0
    about = json.loads((here / "run" / "config.json").read_text())
    expected = make_config("copy", scale="smoke", seed=7, overrides=TINY)
    assert config_from_dict(about["config"]) == expected
    assert about["data"]["name"] == "copy"


def test_the_result_is_of_the_best_weights_not_of_the_last(here, monkeypatch):
    values, measured = iter([0.5, 0.3, 0.4]), []  # of three validations

    def evaluate(self, network, split):
        weights = {name: each.clone() for name, each in network.state_dict().items()}
        measured.append((split, weights))
        return {"bce": next(values, 0.9)}

    monkeypatch.setattr(TASKS.get("copy"), "evaluate", evaluate)
    assert main(["copy", "--scale", "smoke", *SETTINGS, "--out", "run"]) == 0
    splits, weights = zip(*measured, strict=True)
    assert splits == ("valid", "valid", "valid", "valid", "test")
    second, last, reported = (
        torch.cat([w.flatten() for w in weights[n].values()]) for n in (1, 2, 4)
    )
    assert torch.equal(reported, second)
    assert not torch.equal(reported, last)
    assert json.loads((here / "run" / "result.json").read_text())["best_update"] == 8


def test_a_second_run_takes_another_folder(here):
    for _ in range(3):
        assert main(["copy", "--scale", "smoke", *SETTINGS]) == 0
    name = "copy-tardis-gumbel-smoke-seed0"
    assert sorted(os.listdir(here / "runs")) == [name, f"{name}-2", f"{name}-3"]


def test_the_same_command_gives_the_same_result(here):
    for name in ("one", "two"):
        assert main(["copy", "--scale", "smoke", *SETTINGS, "--out", name]) == 0
    one, two = (json.loads((here / name / "result.json").read_text()) for name in ("one", "two"))
    assert (one["test"], one["validation"]) == (two["test"], two["validation"])


@pytest.mark.parametrize("task", TASKS.names())
def test_set_help_lists_all_settings_with_their_values_and_meanings(here, capsys, task):
    assert main([task, "--set", "help", "--set", "memory.cells=5"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    settings = make_config(task, overrides={"memory.cells": 5}).settings()
    assert [line.split()[0] for line in lines] == [f"{k}={v}" for k, v in settings.items()]
    assert "number of memory cells (K)" in next(line for line in lines if "memory.cells=5" in line)
    assert tree(here) == {}


def test_help_names_the_tasks(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--help"])
    assert f"one of: {', '.join(TASKS.names())}" in " ".join(capsys.readouterr().out.split())


# What is wrong: one line, exit code 2, nothing written


def refusal(capsys, *arguments: str) -> str:
    """The one line on stderr; everything on the disk is as it was."""
    before = tree(Path())
    assert main(list(arguments)) == 2
    said = capsys.readouterr()
    assert tree(Path()) == before
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert said.err.endswith("\n")
    return said.err[len("error: ") : -1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a task: adding, copy, "),
        (["cpoy"], "unknown task 'cpoy'; choose one of: adding, copy, "),
        (["copy", "--model", "gru"], "unknown model 'gru'; choose one of: a"),
        (
            ["copy", "--estimator", "x"],
            "unknown estimator 'x'; choose one of: counterfactual, gumbel, ",
        ),
        (
            ["copy", "--estimator", "none"],
            "unknown estimator 'none'; choose one of: counterfactual, gumbel, ",
        ),
        (["copy", "--scale", "big"], "unknown scale 'big'; choose one of: smoke, small, paper"),
        (["copy", "--device", "tpu"], "device 'tpu' is not available; choose one of: auto"),
        (["copy", "--device", "cpu:x"], "device 'cpu:x' is not available; choose one of: "),
        (["copy", "--data", "fake"], "argument --data: invalid choice: 'fake' (choose from "),
        (["copy", "--data-dir", "gone"], "argument --data-dir: must be a folder that exists"),
        (["copy", "--seed", "x"], "argument --seed: invalid int value: 'x'"),
        (["copy", "--seed", "-1"], "the seed must be "),
        (["copy", "--seed", str(2**64)], "the seed must be "),
        (["copy", "--bogus"], "unrecognized arguments: --bogus"),
        (["copy", "--mod", "lstm"], "unrecognized arguments: --mod"),
        (["copy", "--model"], "argument --model: expected one argument"),
        (["copy", "recall"], "unrecognized arguments: recall"),
        (["copy", "--model", "lstm", "--estimator", "gumbel"], "model 'lstm' makes no discrete"),
    ],
)
def test_a_wrong_option_is_one_line(capsys, arguments, message):
    assert refusal(capsys, *arguments, *SHORT).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory.cels=4", "unknown setting 'memory.cels' (did you mean memory.cells?); memory has"),
        ("cells=4", "unknown setting 'cells': settings are section.key=value"),
        ("memory.cells", "--set takes section.key=value, not 'memory.cells'"),
        ("=4", "--set takes section.key=value, not '=4'"),
        ("memory.cells=many", "memory.cells must be a whole number, not 'many'"),
        ("memory.cells=", "memory.cells must be a whole number, not ''"),
        ("memory.cells=0", "memory.cells must be at least 1, not 0"),
        ("memory.cells=-4", "memory.cells must be at least 1, not -4"),
        ("training.learning_rate=nan", "training.learning_rate must be a number, not 'nan'"),
        ("training.decay=slow", "training.decay must be one of constant, linear, cosine, not "),
        ("model.reset_gates=2", "model.reset_gates must be true or false, not '2'"),
        ("task.longest=0", "task.shortest must be at least 1 and at most task.longest, not 1 with"),
    ],
)
def test_a_wrong_setting_is_one_line(capsys, text, message):
    assert refusal(capsys, "copy", "--set", text, *SHORT).startswith(message)


@pytest.mark.parametrize("path", ["file", "file/run", "file/deep/run", "n" * 300])
def test_a_folder_that_cannot_be_written_is_one_line(here, capsys, path):
    (here / "file").write_text("not a folder")
    said = refusal(capsys, "copy", "--scale", "smoke", "--out", path, *SHORT)
    assert said.startswith(f"--out must be a folder that can be written, not {path} (")


def test_a_file_called_runs_is_one_line(here, capsys):
    (here / "runs").write_text("not a folder")
    assert "must be a folder that can be written" in refusal(
        capsys, "copy", "--scale", "smoke", *SHORT
    )


@pytest.mark.parametrize("where", ["mkdir", "touch"])
def test_a_folder_without_permission_is_one_line(here, monkeypatch, capsys, where):
    if where == "touch":
        (here / "run").mkdir()

    def refuse(self, *rest, **more):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, where, refuse)
    said = refusal(capsys, "copy", "--scale", "smoke", "--out", "run", *SHORT)
    assert said.startswith("--out must be a folder that can be written, not run (")


@pytest.fixture
def run(here, capsys) -> Path:
    """A finished run."""
    assert main(["copy", "--scale", "smoke", *SETTINGS, "--out", "run"]) == 0
    capsys.readouterr()
    return here / "run"


def test_a_folder_with_a_run_is_left_alone(run, capsys):
    said = refusal(capsys, "copy", "--scale", "smoke", "--out", "run", *SHORT)
    assert said.startswith("run already holds a run; resume it with --resume run, or choose")


@pytest.mark.parametrize("path", ["gone", "gone/checkpoint.pt", "n" * 300])
def test_resuming_what_is_not_there_is_one_line(capsys, path):
    assert refusal(capsys, "--resume", path).startswith("there is no checkpoint ")


def test_resuming_a_folder_without_a_checkpoint_is_one_line(here, capsys):
    (here / "empty").mkdir()
    said = refusal(capsys, "--resume", "empty")
    assert said.startswith("there is no checkpoint empty/checkpoint.pt; ")


@pytest.mark.parametrize(
    ("option", "value", "has"),
    [
        ("--model", "lstm", "model 'tardis', not 'lstm'"),
        ("--estimator", "reinforce", "estimator 'gumbel', not 'reinforce'"),
        ("--scale", "paper", "scale 'smoke', not 'paper'"),
        ("--seed", "1", "seed 0, not 1"),
    ],
)
def test_a_checkpoint_of_another_run_is_one_line(run, capsys, option, value, has):
    said = refusal(capsys, "--resume", "run", option, value)
    assert said.startswith(f"the checkpoint in run is of {has}; leave ")


def test_a_checkpoint_of_another_task_is_one_line(run, capsys):
    said = refusal(capsys, "recall", "--resume", "run")
    assert said.startswith("the checkpoint in run is of task 'copy', not 'recall'")


@pytest.mark.parametrize("more", [["--set", "memory.cells=8"], ["--out", "other"]])
def test_a_resumed_run_cannot_be_changed(run, capsys, more):
    said = refusal(capsys, "--resume", "run", *more)
    rule = "leave out --out and --start-from, and --set all but training.updates"
    assert said == f"--resume continues a run as it is: {rule}"


def test_a_finished_run_trains_longer(run, capsys):
    before = (run / "metrics.csv").read_text()
    assert main(["--resume", "run", "--set", "training.updates=20"]) == 0
    said = capsys.readouterr().out.splitlines()[0]
    assert said.startswith("from update 12 to 20 instead of 12: everything that is a share of ")
    after = (run / "metrics.csv").read_text()
    assert after.startswith(before)
    assert [row.split(",")[0] for row in after.splitlines()[1:]] == ["4", "8", "12", "16", "20"]
    assert json.loads((run / "result-12.json").read_text())["updates"] == 12
    assert json.loads((run / "result.json").read_text())["updates"] == 20


def test_a_longer_run_that_is_interrupted_keeps_its_new_length(run, monkeypatch):
    monkeypatch.setattr(train_session, "train_to_end", lambda *arguments: False)
    assert main(["--resume", "run", "--set", "training.updates=20"]) == 130
    monkeypatch.undo()
    assert not (run / "result.json").exists()
    monkeypatch.chdir(run.parent)
    assert main(["--resume", "run"]) == 0
    assert json.loads((run / "result.json").read_text())["updates"] == 20


@pytest.mark.parametrize(
    ("updates", "rule"),
    [
        ("12", "training.updates must be more than the 12 updates that the run has done, not 12"),
        ("many", "training.updates must be a whole number, not 'many'"),
    ],
)
def test_a_length_that_leaves_nothing_to_train_is_one_line(run, capsys, updates, rule):
    assert refusal(capsys, "--resume", "run", "--set", f"training.updates={updates}") == rule


def test_a_run_without_patience_left_cannot_train_longer(capsys):
    settings = [*SETTINGS, "--set", "training.patience=1", "--set", "training.learning_rate=9"]
    assert main(["copy", "--scale", "smoke", *settings, "--out", "run"]) == 0
    capsys.readouterr()
    said = refusal(capsys, "--resume", "run", "--set", "training.updates=40")
    assert said.startswith("the run was ended by training.patience=1 after ")


def test_a_truncated_checkpoint_is_one_line(run, capsys):
    path = run / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:2000])
    said = refusal(capsys, "--resume", "run")
    assert said.startswith("run/checkpoint.pt is not a checkpoint of this program or is damaged")


def test_weights_alone_cannot_be_resumed(run, capsys):
    said = refusal(capsys, "--resume", "run/best.pt")
    assert said.startswith("run/best.pt cannot be resumed")


def alter(run: Path, **changes: object) -> None:
    values = checkpoint.load(run / "checkpoint.pt")
    checkpoint.save(run / "checkpoint.pt", {**values, **changes})


def test_weights_of_another_shape_are_one_line(run, capsys):
    values = checkpoint.load(run / "checkpoint.pt")
    settings = {**values["config"]["settings"], "model.hidden": 9}
    alter(run, config={**values["config"], "settings": settings})
    assert refusal(capsys, "--resume", "run").startswith("run cannot be resumed")


def test_a_run_of_another_kind_of_device_is_not_resumed(run, capsys):
    alter(run, generator=torch.zeros(16, dtype=torch.uint8))  # as long as that of a GPU
    said = refusal(capsys, "--resume", "run")
    assert said.startswith("the run was trained on another kind of device than cpu, ")
    assert "--start-from" in said


@pytest.mark.parametrize("name", ["network", "optimizer", "generator", "history", "provenance"])
def test_a_checkpoint_with_a_part_missing_is_one_line(run, capsys, name):
    values = checkpoint.load(run / "checkpoint.pt")
    checkpoint.save(run / "checkpoint.pt", {key: values[key] for key in values if key != name})
    assert refusal(capsys, "--resume", "run").startswith("run cannot be resumed")


@pytest.mark.parametrize(
    "config", [None, {}, {"task": "gone", "model": "tardis", "estimator": "gumbel"}]
)
def test_a_configuration_of_another_version_is_one_line(run, capsys, config):
    alter(run, config=config)
    said = refusal(capsys, "--resume", "run")
    assert said.startswith("the checkpoint run does not fit this version of the program: ")


def test_a_run_on_other_data_is_not_resumed(run, capsys):
    data = checkpoint.load(run / "checkpoint.pt")["provenance"]
    alter(run, provenance={**data, "name": "copy-standin", "sha256": "0123456789abcdef"})
    said = refusal(capsys, "--resume", "run")
    assert said.startswith("the run run was trained on copy-standin (0123456789ab), not on copy")


def test_data_that_moved_is_the_same_data(run, capsys):
    data = checkpoint.load(run / "checkpoint.pt")["provenance"]
    alter(run, provenance={**data, "origin": "somewhere else"})
    assert main(["--resume", "run"]) == 0


def test_the_process_exits_with_2_and_without_a_traceback():
    done = subprocess.run(
        [sys.executable, "-m", "tardis_core.train", "copi"],  # refused before PyTorch is imported
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: unknown task 'copi'; choose one of: .*\n", done.stderr)


def test_a_backend_that_cannot_run_the_model_leaves_no_folder(capsys, tmp_path):
    out = tmp_path / "run"
    options = ["--model", "ntm", "--set", "model.backend=native", "--out", str(out)]
    message = "model.backend=native cannot run this: it has no kernel for the model Ntm; choose"
    assert refusal(capsys, "copy", *options).startswith(message)
    assert not out.exists()
