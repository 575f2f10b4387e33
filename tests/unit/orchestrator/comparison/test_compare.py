"""The command that compares: candidates, what exists already, and what is refused."""

import pytest

from orchestrator.compare_command import main
from orchestrator.comparison import runs, tables
from orchestrator.planning import dry_run
from orchestrator.planning.arguments import comparison_options
from orchestrator.planning.planner import paper_candidates, plan_from
from tardis_core import paper
from tardis_core.config import make_config
from tardis_core.models.base import MODELS
from tests.support.comparisons import data_of, start
from tests.support.sweep_logs import comparison_plan, fill, fill_comparison, make_plan


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def test_searches_are_compared_at_equal_numbers_of_trials(capsys):
    for name, values in (("one", [0.5, 0.1, 0.3]), ("two", [0.4, 0.2, (0.6,), None])):
        plan = make_plan(name)
        start(plan)
        fill(plan, values)
    assert main(["--sweeps", "one,two"]) == 0
    comparison = runs.of_sweeps(["one", "two"])
    assert {group.label.partition(":")[0] for group in comparison.groups} == {"one", "two"}
    assert (
        sum(len(group.runs) for group in comparison.groups) == 6
    )  # the pruned one was paid for, too
    curves = tables.best_of(comparison)
    first = curves[[column for column in curves if column.startswith("one")]]
    assert (first.diff().dropna() <= 0).all(axis=None)
    assert "Expected best validation" in capsys.readouterr().out


def test_no_runs_another_task_and_a_search_are_refused(capsys):
    plan = comparison_plan(labels=("a",), seeds=(1,))
    start(plan)
    assert data_of(plan) is None
    assert main(["--sweeps", "c"]) == 2
    assert "there is no run to compare" in capsys.readouterr().err
    fill_comparison(plan, {"a": [0.5]})
    assert main(["ptb", "--sweeps", "c"]) == 2
    assert "these are runs of copy, not of ptb" in capsys.readouterr().err
    start(make_plan("search"))
    assert main(["--resume", "search"]) == 2
    assert "is a search" in capsys.readouterr().err


def plan_for(*arguments):
    return plan_from(comparison_options(list(arguments)))


def test_the_paper_rows_are_the_default_candidates():
    plan = plan_for("ptb", "--smoke", "--seeds", "2", "--seed", "7")
    labels = [candidate.label for candidate in plan.candidates]
    assert labels[0] == "LSTM + LayerNorm + Dropout"
    assert len(labels) == 5
    assert (plan.seeds, plan.trials, plan.test) == ((7, 8), 10, True)


def test_a_model_without_a_row_in_the_table_has_its_defaults():
    plan = plan_for("ptb", "--smoke", "--models", "lstm,ntm")
    assert [candidate.settings["model"] for candidate in plan.candidates] == ["lstm", "ntm"]
    assert plan.candidates[1].label == "ntm"


@pytest.mark.parametrize("task", paper.TABLES)
def test_every_row_of_a_table_is_a_configuration(task):
    rows = paper_candidates(task, tuple(MODELS.names()))
    assert len(rows) == sum(bool(row.settings) for row in paper.rows(task))
    for row in rows:
        settings = {key: value for key, value in row.settings.items() if "." in key}
        make_config(
            task, row.settings["model"], row.settings.get("estimator"), "paper", 0, settings
        )


def test_the_paper_numbers_for_strokes_depend_on_the_number_of_digits():
    ten = make_config("strokes", overrides={"task.digits": 10}).task_settings
    assert paper.reported("strokes", "LSTM", ten) == 3.54
    assert paper.reported("ptb", "nobody's", None) is None


def test_a_dry_run_shows_the_candidates_and_starts_nothing(here, capsys, monkeypatch):
    monkeypatch.setattr(dry_run, "MEASURE_SECONDS", 0.0)
    words = ["copy", "--smoke", "--candidate", "lstm", "--candidate", "tardis:gumbel"]
    assert main([*words, "--seeds", "2", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "4 trials of copy" in said
    assert "tardis gumbel  model=tardis, estimator=gumbel" in said
    assert "each with the seeds 0, 1" in said
    assert "200 per trial" in said
    assert list(here.iterdir()) == []


def test_a_task_of_ones_own_has_the_same_default_models():
    rows = paper.rows("a task of one's own")
    assert {row.settings["model"] for row in rows} == {"lstm", "tardis"}
    assert paper.reported("a task of one's own", rows[0].label, None) is None


def test_a_candidate_may_have_a_name_of_its_own():
    own = "tardis:gumbel,memory.cells=8,label=few cells"
    (candidate,) = plan_for("copy", "--smoke", "--candidate", own).candidates
    assert candidate.label == "few cells"
    assert candidate.settings == {"model": "tardis", "estimator": "gumbel", "memory.cells": "8"}


def test_a_fixed_setting_applies_to_the_candidates_that_have_it():
    plan = plan_for(
        *("copy", "--smoke", "--candidate", "lstm"),
        *("--candidate", "tardis:reinforce,estimator.gamma=0.9"),
        *("--set", "memory.cells=4", "--set", "model.hidden=8"),
    )
    lstm, tardis = plan.candidates
    assert lstm.settings == {"model": "lstm", "model.hidden": "8"}
    assert tardis.label == "tardis reinforce estimator.gamma=0.9"
    assert tardis.settings["memory.cells"] == "4"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["copy", "--candidate", "lstm:gumbel"], "makes no discrete choice"),
        (["copy", "--candidate", "lsmt"], "unknown model 'lsmt'"),
        (["copy", "--candidate", "lstm", "--candidate", "lstm"], "each of them only once"),
        (
            ["copy", "--candidate", "lstm", "--set", "memory.cells=4"],
            "unknown setting 'memory.cells'",
        ),
        (["copy", "--models", "lsmt"], "unknown model 'lsmt'"),
        (["copy", "--parameters", "0"], "--parameters must be a whole number from 1, not 0"),
        (["copy", "--seeds", "0"], "--seeds must be a whole number from 1, not 0"),
        (["copy", "--out", "there"], "--out belongs to --runs or --sweeps"),
        ([], "name a task"),
        (["--runs", "a", "--sweeps", "b"], "not both"),
        (["--sweeps", "nobody"], "there is no sweep 'nobody'"),
    ],
)
def test_errors_come_before_anything_is_written(here, capsys, words, message):
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert not list(here.iterdir())
