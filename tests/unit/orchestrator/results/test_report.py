"""The pieces of a report that every kind of sweep has."""

import json
import shlex
from pathlib import Path

import pandas as pd
import pytest

from orchestrator.results import report
from orchestrator.results.records import Records
from orchestrator.tracking.events import Artifact
from tardis_core.train import main as train
from tardis_core.training import checkpoint
from tests.support.sweep_logs import fill, make_plan, put_weights


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def filled(values, **options):
    plan = make_plan(**options)
    fill(plan, values)
    return Records.load(plan)


def test_tables_hold_the_leaderboard_and_the_best_configuration(here):
    report.write_tables(filled([0.5, 0.1, 0.3, (0.4,)]), here)
    assert pd.read_csv(here / "leaderboard.csv")["number"][0] == 1
    best = json.loads((here / "best_config.json").read_text())
    assert (best["number"], best["bce"]) == (1, 0.1)


def test_without_a_complete_trial_there_is_no_best_configuration(here):
    report.write_tables(filled([None, None]), here)
    assert (here / "leaderboard.csv").exists()
    assert not (here / "best_config.json").exists()


def test_the_command_names_the_data_of_the_sweep():
    records = filled([0.5], data_dir="my data", data="real")
    assert report.command_of(records, 0).endswith("--data-dir 'my data' --data real")


def test_the_command_of_the_best_configuration_trains_it(here, capsys):
    report.write_tables(filled([0.5, 0.1]), here)
    best = json.loads((here / "best_config.json").read_text())
    words = shlex.split(best["command"])
    assert words[:3] == ["python", "-m", "tardis_core.train"]
    assert train([*words[3:], "--set", "help"]) == 0
    printed = capsys.readouterr().out.split()
    for key, value in best["config"]["settings"].items():
        assert f"{key}={value}" in printed


@pytest.mark.slow
def test_weights_and_memory_plots_of_the_best_three_are_kept():
    records = filled([0.5, 0.1, 0.3, 0.4, (0.01,)])
    for number in range(5):
        put_weights(records.plan, number)
    events = list(report.artifacts_of_best_trials(records, None))
    assert all(isinstance(event, Artifact) for event in events)
    weights = [event.number for event in events if event.artifact_path == "checkpoint"]
    assert weights == [1, 2, 3]
    plots = [event for event in events if event.path.endswith("memory_access.png")]
    assert [event.number for event in plots] == [1, 2, 3]
    assert Path(plots[0].path).read_bytes().startswith(b"\x89PNG")


def test_the_newest_checkpoint_of_a_trial_is_kept():
    records = filled([0.5, 0.1])
    old = put_weights(records.plan, 1)
    newer = old.parent.parent / "checkpoint_000002" / "best.pt"
    newer.parent.mkdir()
    values = checkpoint.load(old)
    checkpoint.save(newer, {**values, "metric": 0.25})
    list(report.artifacts_of_best_trials(records, None))
    kept = checkpoint.load(records.plan.folder / "best" / "trial-1" / "best.pt")
    assert kept["metric"] == 0.25
