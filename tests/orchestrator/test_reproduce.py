"""The paper's figures again by one command, with a summary that says what it is worth."""

import re
from pathlib import Path

import pandas as pd
import pytest

from orchestrator import reproduce
from orchestrator.reproductions.base import REPRODUCTIONS, Outcome, Request, Row
from tardis_core.tasks.base import SCALES


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(name: str, *words: str) -> tuple[Path, str]:
    """The folder of its results and its summary."""
    assert reproduce.main([name, "--scale", "smoke", "--out", "out", *words]) == 0
    folder = Path("out") / name
    return folder, (folder / "summary.md").read_text()


def test_the_list_names_all_with_what_they_take(capsys):
    assert reproduce.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert {"figure-path-length", "figure-shortest-path", "gradient-flow"} <= set(
        REPRODUCTIONS.names()
    )
    for name in REPRODUCTIONS.names():
        assert name in listed
        assert set(REPRODUCTIONS.get(name).costs) == set(SCALES)


def test_the_path_length_of_a_cell_is_that_of_the_paper():
    folder, summary = run("figure-path-length")
    table = pd.read_csv(folder / "lengths.csv", index_col="cell")
    assert table.shape == (50, 2)
    assert table["TARDIS"].mean() == pytest.approx(3)
    assert table["uMANN"].mean() == pytest.approx(3, abs=0.2)
    assert "T = 200, K = 50, 100 simulations" in summary
    assert "![path_length](path_length.png)" in summary
    assert (folder / "path_length.png").exists()


def test_the_shortest_paths_are_those_of_the_claims():
    folder, summary = run("figure-shortest-path")
    table = pd.read_csv(folder / "shortest_paths.csv").set_index(["memory", "cells"])
    assert (table.loc[(slice(None), 1), "length"] == 45).all()
    by_kind = table["length"].unstack("memory")
    assert (by_kind.loc[[2, 5, 12], "TARDIS"] < by_kind.loc[[2, 5, 12], "urMANN"]).all()
    assert (table["outside"] <= table["length"]).all()
    assert "yes: TARDIS" in summary


def test_a_seed_repeats_and_another_differs():
    texts = []
    for seed in ("1", "1", "2"):
        folder, _ = run("figure-path-length", "--seed", seed)
        texts.append((folder / "lengths.csv").read_text())
    assert texts[0] == texts[1] != texts[2]


def test_gradient_flow_trains_once_and_compares_three_models(capsys):
    folder, summary = run("gradient-flow")
    table = pd.read_csv(folder / "flow.csv")
    assert set(table["model"]) == {"LSTM trained", "TARDIS untrained", "TARDIS trained"}
    lstm = table[table["model"] == "LSTM trained"]
    assert not lstm["R_median"].any()
    assert (lstm["Q_median"] == lstm["sum_median"]).all()
    assert table[table["model"] == "TARDIS trained"]["R_p90"].max() > 0
    assert "test cross-entropy: LSTM trained 0." in summary
    before = capsys.readouterr().out
    assert "update" in before
    again, _ = run("gradient-flow")  # nothing is trained a second time
    assert "update    " not in capsys.readouterr().out
    assert pd.read_csv(again / "flow.csv").equals(table)


def test_the_summary_of_the_folder_holds_all_that_were_made():
    run("figure-path-length")
    run("figure-shortest-path")
    text = Path("out/summary.md").read_text()
    assert re.findall("^## (.*)$", text, re.M) == ["figure-path-length", "figure-shortest-path"]
    pictures = re.findall(r"\]\((.*?)\)", text)
    assert len(pictures) == 2
    assert all((Path("out") / picture).is_file() for picture in pictures)


def test_a_summary_sets_ours_beside_the_papers():
    outcome = Outcome([Row("error", "2.0", "1.9")], "Close.", "one seed", [])
    text = reproduce.summary("figure-path-length", Request("smoke", Path()), outcome, 3.0)
    assert "| error | 2.0 | 1.9 |" in text
    assert "Close." in text
    assert "python -m orchestrator.reproduce figure-path-length --scale smoke --seed 0" in text


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "name what to reproduce: all, figure-path-length"),
        (["table-mt"], "unknown reproduction 'table-mt'; choose one of: figure-path-length"),
        (["all", "--scale", "huge"], "unknown scale 'huge'"),
        (["figure-path-length", "--out", "/dev/null/x"], "--out must be a folder"),
    ],
)
def test_bad_input_gets_one_line(capsys, words, reason):
    assert reproduce.main(words) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1
