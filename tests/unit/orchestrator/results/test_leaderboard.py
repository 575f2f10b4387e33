"""The leading trials as text and as Markdown."""

import pytest

from orchestrator.results import leaderboard
from orchestrator.results.records import Records
from tests.support.sweep_logs import fill, make_plan


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def filled(values):
    plan = make_plan()
    fill(plan, values)
    return Records.load(plan)


def test_the_text_shows_the_metric_and_the_settings_that_differ(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # room for every column
    text = leaderboard.text(filled([0.5, 0.1]))
    assert "bce" in text
    assert "learning_rate" in text.splitlines()[0].split()
    assert "hidden" not in text


def test_a_narrow_terminal_gets_fewer_columns(monkeypatch):
    records = filled([0.5, 0.1])
    monkeypatch.setenv("COLUMNS", "40")
    lines = leaderboard.text(records).splitlines()
    assert lines[0].split() == ["trial", "state", "bce", "validations"]


def test_a_setting_is_shown_in_few_digits(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    records = filled([0.5, 0.1])
    records.trials[0].params["training.learning_rate"] = "0.15000000000000002"
    head, *_, last = leaderboard.text(records).splitlines()
    assert head.split()[-1] == "learning_rate"
    assert last.split()[-1] == "0.15"


def test_the_description_in_mlflow_is_a_table_of_the_leading_trials():
    lines = leaderboard.markdown(filled([0.5, None, 0.125, (0.05,)])).splitlines()
    assert "2 complete, 1 pruned, 1 failed" in lines[0]
    assert lines[2].startswith("| number | state | bce | validations |")
    assert lines[4].startswith("| 2 | complete | 0.125 |")
    assert len({line.count("|") for line in lines[2:]}) == 1


def test_a_sweep_whose_trials_all_failed_has_a_leaderboard():
    assert "failed" in leaderboard.text(filled([None, None]))
