"""The table of rivals: runs that are missing are made, finished ones are left alone."""

import os

import pytest

from benchmarks.tools import rivals

TINY = [
    f"--set={setting}"
    for setting in (
        "task.longest=2",
        "task.valid_sequences=4",
        "task.test_sequences=4",
        "training.updates=2",
        "training.evaluate_every=1",
    )
]


def arguments(folder, *more):
    models = "--models=lstm,tardis+reinforce"
    return ["copy", models, "--scale=smoke", "--seeds=1,2", f"--out={folder}", *TINY, *more]


def results(folder):
    return {path: os.stat(path).st_mtime_ns for path in folder.rglob("result.json")}


def test_the_table_is_filled_and_then_left_alone(tmp_path, capsys):
    assert rivals.main(arguments(tmp_path)) == 0
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert [line.split(" | ")[0] for line in table[2:]] == ["| lstm", "| tardis+reinforce"]
    assert all(line.split(" | ")[3] == "2" for line in table[2:])  # seeds
    assert table[3].endswith("| Success |")
    before = results(tmp_path)
    assert len(before) == 4
    assert rivals.main(arguments(tmp_path)) == 0
    again = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert again == table
    assert results(tmp_path) == before


def test_a_run_that_is_missing_is_made_and_a_stopped_one_goes_on(tmp_path, capsys):
    assert rivals.main(arguments(tmp_path, "--table")) == 0
    assert "| lstm | 48 | 14,072 | 0 |" in capsys.readouterr().out
    assert not results(tmp_path)
    assert rivals.main(arguments(tmp_path)) == 0
    lost = sorted(results(tmp_path))[0]
    lost.unlink()  # as if killed before its result was written
    assert rivals.main(arguments(tmp_path)) == 0
    assert lost.exists()


def test_speeds_are_measured_without_a_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(rivals, "TIMED_SECONDS", 0.0)
    assert rivals.main(arguments(tmp_path, "--speed")) == 0
    row = capsys.readouterr().out.splitlines()[2].strip("| ").split(" | ")
    assert row[:4] == ["lstm", "48", "14,072", "native"]
    assert int(row[4].replace(",", "")) > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", ["lstm", "clockwork", "ntm", "hmlstm", "dntm-discrete+gumbel"])
def test_hidden_sizes_are_chosen_for_equal_parameters(tmp_path, model):
    options = rivals.parser().parse_args(["copy", f"--models={model}", "--parameters=60000"])
    plan = rivals.plan_from(options)
    assert plan.count(plan.config(model, 1)) == pytest.approx(60_000, rel=0.03)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["parity"], "unknown task 'parity'; choose one of: copy, "),
        (["copy", "--models=gru"], "unknown model 'gru'; choose one of: "),
        (["copy", "--models=lstm+gumbel"], "model 'lstm' makes no discrete choice"),
        (["copy", "--seeds=few"], "--seeds must be whole numbers with commas"),
    ],
)
def test_a_wrong_argument_is_one_line(capsys, wrong, message):
    assert rivals.main(wrong) == 2
    assert message in capsys.readouterr().err
