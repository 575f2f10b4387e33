"""python -m orchestrator.inspect: plots of the memory, and numbers about its use."""

from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from orchestrator import inspect


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_the_memory_is_drawn_and_its_use_printed(runs, capsys, tmp_path):
    before = plt.get_fignums()  # other tests may have theirs
    assert inspect.main([str(runs / "ptb"), "--example", "2", "--out", "plots"]) == 0
    assert {path.name for path in Path("plots").iterdir()} == {
        "memory_access.png",
        "path_lengths.png",
    }
    message = capsys.readouterr().out
    assert "ptb-standin, tardis reinforce" in message
    assert "mean wormhole length" in message
    assert plt.get_fignums() == before


@pytest.mark.slow
def test_plots_are_recorded_in_the_run(recorded_sweep):
    _, client, run_id = recorded_sweep
    assert inspect.main(["found"]) == 0
    paths = {each.path for each in client.list_artifacts(run_id, "inspect")}
    assert paths == {"inspect/memory_access.png", "inspect/path_lengths.png"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["lstm"], "reads one memory cell per step"),
        (["copy", "--example", "9999"], "an example is a number from 0 to 15, not 9999"),
        (["copy", "--split", "train"], "argument --split: invalid choice: 'train'"),
    ],
)
def test_errors_are_one_line(runs, capsys, words, reason):
    assert inspect.main([str(runs / words[0]), *words[1:], "--out", "plots"]) == 2
    message = capsys.readouterr().err
    assert reason in message
    assert message.count("\n") == 1
    assert not Path("plots").exists()
