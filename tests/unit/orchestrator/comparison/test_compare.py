"""Comparing what has been measured: groups, numbers, verdicts, reports, and what is refused."""

import re

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

from orchestrator.compare import main, paper_candidates, parser, plan_from
from orchestrator.comparison import report as comparison_report
from orchestrator.comparison import runs as comparison_runs
from orchestrator.comparison import tables
from orchestrator.planning import dry_run
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import SweepStarted, SweepTags
from orchestrator.tracking.tracker import Tracker
from tardis_core import paper
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.models.base import MODELS
from tardis_core.tasks.base import TASKS
from tests.support.mlflow_stores import PATIENCE
from tests.support.servers import free_port
from tests.support.sweep_logs import (
    COMPLETE,
    comparison_plan,
    fill,
    fill_comparison,
    make_plan,
    params_of,
    record,
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def start(plan, **tags):
    log = EventLog(plan.folder)
    log.append(SweepStarted(plan.name, {"data": "copy", "data.real": "True", **tags}))
    log.close()
    plan.save()


def compared(values, seeds=(1, 2), **tags):
    plan = comparison_plan(labels=tuple(values), seeds=seeds)
    start(plan, **tags)
    fill_comparison(plan, values)
    return plan, comparison_runs.of_plan(plan)


def test_a_comparison_in_numbers():
    _, found = compared({"a": [0.4, 0.2], "b": [0.1, 0.01]})
    values = tables.by_seed(found)
    assert values.loc[1].tolist() == [0.4, 0.1]
    table = tables.summary(found).set_index("system")
    assert table.index.tolist() == ["b", "a"]
    assert table["mean"].to_dict() == pytest.approx({"a": 0.3, "b": 0.055})
    assert table.loc["a", "deviation"] == pytest.approx(0.2 / 2**0.5)
    assert table["solved"].to_dict() == {"a": "0 of 2", "b": "1 of 2"}


def test_differences_are_paired_by_seed():
    _, found = compared({"a": [1.0, 2.0, 3.0], "b": [1.1, 2.1, 3.1]}, seeds=(1, 2, 3))
    (row,) = tables.differences(found).to_dict("records")
    assert (row["better"], row["than"], row["pairs"]) == ("a", "b", 3)
    assert row["by"] == pytest.approx(0.1)
    assert row["low"] == pytest.approx(0.1)  # every pair differs by the same, whatever the spread
    assert row["p"] == 2 / 2**3


def test_a_verdict_is_as_strong_as_the_runs_allow():
    assert tables.verdict(0.1, 0.2, 0.25, 3).startswith("undecided: 3 pairs cannot tell, 6")
    assert tables.verdict(0.1, 0.2, 2 / 2**6, 6) == "yes"
    assert tables.verdict(-0.1, 0.2, 0.2, 6) == "undecided"


def test_the_test_split_is_compared_where_every_run_has_it():
    plan = comparison_plan(labels=("a",), seeds=(1, 2))
    start(plan)
    record(plan, 0, [0.5], COMPLETE, params_of(3e-3, 1), test=0.7)
    record(plan, 1, [0.4], COMPLETE, params_of(3e-3, 2))
    assert comparison_runs.of_plan(plan).split == "valid"
    record(plan, 1, [], None, params_of(3e-3, 2), test=0.6)
    record(plan, 1, [], COMPLETE, params_of(3e-3, 2))
    found = comparison_runs.of_plan(plan)
    assert found.split == "test"
    assert tables.by_seed(found)["a"].tolist() == [0.7, 0.6]


def test_the_papers_figures_stand_beside_real_data_only():
    label = "TARDIS + Gumbel ST"
    plan, found = compared({label: [0.4, 0.2]})
    assert tables.summary(found)["paper"].tolist() == ["Success"]
    start(plan)
    _, made_up = compared_again(plan, {"data.real": "False"})
    assert "paper" not in tables.summary(made_up)
    assert "made up" in comparison_report.headline(made_up)


def compared_again(plan, tags):
    log = EventLog(plan.folder)
    log.append(SweepTags(tags))
    log.close()
    return plan, comparison_runs.of_plan(plan)


def test_searches_are_compared_at_equal_numbers_of_trials(capsys):
    for name, values in (("one", [0.5, 0.1, 0.3]), ("two", [0.4, 0.2, (0.6,), None])):
        plan = make_plan(name)
        start(plan)
        fill(plan, values)
    assert main(["--sweeps", "one,two"]) == 0
    found = comparison_runs.of_sweeps(["one", "two"])
    assert {group.label.partition(":")[0] for group in found.groups} == {"one", "two"}
    assert sum(len(group.runs) for group in found.groups) == 6  # the pruned one was paid for, too
    curves = tables.best_of(found)
    first = curves[[column for column in curves if column.startswith("one")]]
    assert (first.diff().dropna() <= 0).all(axis=None)
    assert "expected best validation" in capsys.readouterr().out


def test_the_page_needs_no_network_and_holds_everything(here):
    plan, found = compared({"a": [0.4, 0.2], "b": [0.1, 0.3]})
    paths = comparison_report.write(found, here / "out")
    assert all(path.exists() for path in paths)
    page = (here / "out" / "report.html").read_text()
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert page.count("data:image/png;base64,") == 3
    assert f"python -m orchestrator.compare --sweeps {plan.name}" in page
    assert "python -m tardis_core.train copy --model tardis --estimator gumbel" in page
    assert pd.read_csv(here / "out" / "by_seed.csv")["b"].tolist() == [0.1, 0.3]


def test_runs_of_mlflow_are_grouped_by_all_but_the_seed(here, capsys):
    uri = f"sqlite:///{here}/mlflow.db"
    plan = comparison_plan(labels=("a", "b"), seeds=(1, 2))
    start(plan)
    for job in plan.jobs():
        number, seed = job["number"], job["settings"]["seed"]
        rate = {"a": 3e-3, "b": 1e-3}[plan.candidate_of(number).label]
        record(plan, number, [seed + rate], COMPLETE, params_of(rate, seed))
    log = EventLog(plan.folder)
    tracker = Tracker(log, uri, "tardis-copy", plan.sweep_id)
    tracker.start()
    assert tracker.close(PATIENCE) == 0
    log.close()
    client = MlflowClient(uri)
    every = client.search_runs([client.get_experiment_by_name("tardis-copy").experiment_id])
    ids = [run.info.run_id for run in every if "tardis.trial" in run.data.tags]
    found = comparison_runs.of_runs(ids, uri)
    labels = [
        "tardis gumbel training.learning_rate=0.001",
        "tardis gumbel training.learning_rate=0.003",
    ]
    assert sorted(group.label for group in found.groups) == labels
    table = tables.by_seed(found)
    assert table[labels[0]].tolist() == [1.001, 2.001]
    assert main(["--runs", ",".join([*ids, ids[0]]), "--tracking-uri", uri]) == 0
    table = pd.read_csv(here / "comparisons" / "copy" / "comparison.csv")
    assert table["runs"].tolist() == [2, 2]  # one that is named twice counts once
    assert main(["--runs", ids[0], "--tracking-uri", uri, "--out", "/dev/null/x"]) == 2
    assert "--out must be a folder that can be written, not /dev/null/x" in capsys.readouterr().err
    client.log_metric(ids[0], "valid_bce", float("nan"), timestamp=1, step=0)
    assert comparison_runs.of_runs(ids[:1], uri).groups[0].runs[0].valid < 3
    other = client.create_run(every[0].info.experiment_id, tags={"mlflow.parentRunId": "p"})
    for key, value in {**client.get_run(ids[0]).data.params, "task": "recall"}.items():
        client.log_param(other.info.run_id, key, value)
    assert main(["--runs", f"{ids[0]},{other.info.run_id}", "--tracking-uri", uri]) == 2
    assert "only runs of one task can be compared, not of copy, recall" in capsys.readouterr().err
    (parent,) = [run.info.run_id for run in every if "tardis.trial" not in run.data.tags]
    assert main(["--runs", parent, "--tracking-uri", uri]) == 2
    assert "is not a trial" in capsys.readouterr().err
    assert main(["--runs", "nobody", "--tracking-uri", uri]) == 2
    assert "there is no run 'nobody'" in capsys.readouterr().err


def test_a_stand_in_is_not_compared_with_the_real_data():
    compared({"a": [0.4, 0.2]}, **{"data.sha256": "1"})
    other = comparison_plan("d", labels=("a",), seeds=(1, 2))
    start(other, data="copy-standin", **{"data.sha256": "2"})
    fill_comparison(other, {"a": [0.4, 0.2]})
    with pytest.raises(UserError, match=r"the same data .* copy \(1\) and copy-standin \(2\)"):
        comparison_runs.of_sweeps(["c", "d"])


def test_systems_of_two_comparisons_are_told_apart():
    for name, values in (("one", [0.4, 0.2]), ("two", [0.1, 0.3])):
        plan = comparison_plan(name, labels=("a", f"only {name}"), seeds=(1, 2))
        start(plan)
        fill_comparison(plan, {"a": values, f"only {name}": [0.5, 0.6]})
    found = comparison_runs.of_sweeps(["one", "two"])
    assert [each.label for each in found.groups] == ["one: a", "only one", "two: a", "only two"]
    assert tables.by_seed(found)["two: a"].tolist() == [0.1, 0.3]
    assert len(tables.differences(found)) == 6


def test_no_runs_another_task_and_a_search_are_refused(capsys):
    plan = comparison_plan(labels=("a",), seeds=(1,))
    start(plan)
    assert comparison_runs.of_plan(plan) is None
    assert main(["--sweeps", "c"]) == 2
    assert "there is no run to compare" in capsys.readouterr().err
    fill_comparison(plan, {"a": [0.5]})
    assert main(["ptb", "--sweeps", "c"]) == 2
    assert "these are runs of copy, not of ptb" in capsys.readouterr().err
    start(make_plan("search"))
    assert main(["--resume", "search"]) == 2
    assert "is a search" in capsys.readouterr().err


def plan_for(*arguments):
    return plan_from(parser().parse_args(list(arguments)))


def test_unless_told_otherwise_the_papers_own_rows_are_trained():
    plan = plan_for("ptb", "--smoke", "--seeds", "2", "--seed", "7")
    labels = [candidate.label for candidate in plan.candidates]
    assert labels[0] == "LSTM + LayerNorm + Dropout"
    assert len(labels) == 5
    assert (plan.seeds, plan.trials, plan.test) == ((7, 8), 10, True)


@pytest.mark.parametrize("task", TASKS.names())
def test_every_row_of_a_table_is_a_configuration(task):
    rows = paper_candidates(task, tuple(MODELS.names()))
    assert len(rows) == sum(bool(row.settings) for row in paper.TABLES[task])
    for row in rows:
        settings = {key: value for key, value in row.settings.items() if "." in key}
        make_config(
            task, row.settings["model"], row.settings.get("estimator"), "paper", 0, settings
        )


def test_the_papers_figures_for_strokes_go_by_the_number_of_digits():
    ten = make_config("strokes", overrides={"task.digits": 10}).task_settings
    assert paper.reported("strokes", "LSTM", ten) == 3.54
    assert paper.reported("ptb", "nobody's", None) is None


def test_a_dry_run_shows_the_systems_and_starts_nothing(here, capsys, monkeypatch):
    monkeypatch.setattr(dry_run, "MEASURE_SECONDS", 0.0)
    words = ["copy", "--smoke", "--candidate", "lstm", "--candidate", "tardis:gumbel"]
    assert main([*words, "--seeds", "2", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "4 trials of copy" in said
    assert "tardis gumbel  model=tardis, estimator=gumbel" in said
    assert "each with the seeds 0, 1" in said
    assert "200 a trial" in said
    assert list(here.iterdir()) == []


def test_a_task_that_the_paper_does_not_have_is_compared_by_the_same_systems():
    rows = paper.rows("a task of one's own")
    assert {row.settings["model"] for row in rows} == {"lstm", "tardis"}
    assert paper.reported("a task of one's own", rows[0].label, None) is None


def test_a_candidate_may_have_a_name_of_its_own():
    own = "tardis:gumbel,memory.cells=8,label=few cells"
    (candidate,) = plan_for("copy", "--smoke", "--candidate", own).candidates
    assert candidate.label == "few cells"
    assert candidate.settings == {"model": "tardis", "estimator": "gumbel", "memory.cells": "8"}


def test_candidates_of_ones_own_with_settings_for_those_that_have_them():
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
        (["copy", "--candidate", "lstm", "--candidate", "lstm"], "none of them twice"),
        (
            ["copy", "--candidate", "lstm", "--set", "memory.cells=4"],
            "unknown setting 'memory.cells'",
        ),
        (["copy", "--models", "lsmt"], "unknown model 'lsmt'"),
        (["copy", "--seeds", "0"], "--seeds is a whole number from 1, not 0"),
        ([], "name a task"),
        (["--runs", "a", "--sweeps", "b"], "not both"),
        (["--sweeps", "nobody"], "there is no sweep 'nobody'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(here, capsys, words, message):
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert not list(here.iterdir())


def test_curves_of_runs_that_took_different_times_are_drawn_where_all_have_values(here):
    _, found = compared({"a": [0.4, 0.2]})
    for run, factor in zip(found.groups[0].runs, (1.0, 3.0), strict=True):
        run.curve["seconds"] = np.array([1.0]) * factor
    assert comparison_report.write(found, here / "out")


def test_a_store_that_is_away_is_not_taken_for_a_run_that_is_not_there():
    uri = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(UserError, match=r"the tracking store .* cannot be used"):
        comparison_runs.of_runs(["x"], uri)
