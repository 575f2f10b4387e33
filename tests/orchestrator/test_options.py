"""From options to a plan: what is wrong is said before anything is started or written."""

import pytest

from orchestrator import dry_run
from orchestrator.options import parser, plan_from
from orchestrator.plan import load_plan
from orchestrator.run import slots
from orchestrator.sweep_command import main
from tardis_core.errors import UserError


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def plan(*arguments):
    return plan_from(parser().parse_args(list(arguments)))


def test_a_plan_survives_being_saved(here):
    made = plan("copy", "--smoke", "--name", "one", "--set", "memory.cells=4", "--trials", "3")
    made.folder.mkdir(parents=True)
    made.save()
    assert load_plan("one") == made
    assert made.fixed == {"memory.cells": "4"}


def test_reports_are_the_validations_of_a_full_trial():
    made = plan(
        "copy", "--smoke", "--set", "training.updates=45", "--set", "training.evaluate_every=10"
    )
    assert made.reports == 5


def test_time_budgets_have_units():
    assert plan("copy", "--time-budget", "90s").time_budget == 90
    assert plan("copy", "--time-budget", "1.5h").time_budget == 5400


def test_sweeps_in_one_storage_do_not_meet(monkeypatch):
    monkeypatch.setenv("TARDIS_STORAGE", "s3://bucket/ray/")
    one, other = plan("copy", "--name", "one"), plan("copy", "--name", "one")
    assert one.ray_storage.startswith("s3://bucket/ray/one-")
    assert one.ray_storage != other.ray_storage


def test_a_cluster_that_grows_is_asked_for_more_than_it_has():
    has = [{"CPU": 2.0}]
    assert slots(plan("copy", "--concurrency", "8"), has) == 2
    assert slots(plan("copy", "--concurrency", "8", "--autoscale"), has) == 8


@pytest.mark.parametrize(
    ("gpus", "cluster", "expected"),
    [
        ("1", [{"CPU": 8, "GPU": 2}, {"CPU": 8, "GPU": 2}], 4),
        ("0.5", [{"CPU": 8, "GPU": 2}, {"CPU": 8, "GPU": 1}], 6),
        ("0.75", [{"CPU": 8, "GPU": 4}], 4),  # not five: a trial is on one GPU
        ("0.1", [{"CPU": 16, "GPU": 1}], 10),
        ("2", [{"CPU": 8, "GPU": 3}, {"CPU": 8, "GPU": 1}], 1),  # nor on two machines
        ("1", [{"CPU": 8, "GPU": 2}, {"CPU": 8}], 2),
        ("1", [{"CPU": 1, "GPU": 4}], 1),
        ("1", [{"CPU": 8}], 0),
    ],
)
def test_trials_are_packed_on_gpus_of_one_node(gpus, cluster, expected):
    assert slots(plan("copy", "--gpus-per-trial", gpus), cluster) == expected


def test_extending_adds_trials_to_the_same_sweep(here):
    made = plan("copy", "--name", "one", "--trials", "3")
    made.folder.mkdir(parents=True)
    made.save()
    longer = plan("--extend", "one", "--trials", "+20")
    assert longer.trials == 23
    assert longer.sweep_id == made.sweep_id


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a task: copy, ptb"),
        (["chess"], "unknown task 'chess'; choose one of: copy"),
        (["copy", "--scale", "huge"], "unknown scale 'huge'"),
        (["copy", "--estimators", "magic"], "unknown estimator 'magic'"),
        (["copy", "--trials", "none"], "--trials is a whole number from 1"),
        (["copy", "--trials", "0"], "--trials is a whole number from 1"),
        (["copy", "--time-budget", "soon"], "such as 90s, 30m or 2h, not 'soon'"),
        (["copy", "--name", "../../x"], "the name of a sweep is letters"),
        (["copy", "--set", "memory"], "--set takes section.key=value"),
        (["copy", "--set", "training.updates=many"], "training.updates must be a whole number"),
        (["copy", "--space", "nothing.py"], "nothing.py"),
        (["copy", "--autoscale"], "with --autoscale a whole number from 1, not 0"),
        (["--resume", "nothing"], "there is no sweep 'nothing'"),
        (["--extend", "../x"], "the name of a sweep is letters"),
    ],
)
def test_what_is_wrong_is_one_line_and_leaves_nothing_behind(here, capsys, arguments, message):
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.count("\n") == 1
    assert list(here.iterdir()) == []


def test_a_sweep_is_not_overwritten(here):
    made = plan("copy", "--name", "one")
    made.folder.mkdir(parents=True)
    made.save()
    with pytest.raises(UserError, match="--resume it, or choose another --name"):
        plan("copy", "--name", "one")


def test_a_dry_run_shows_the_plan_and_starts_nothing(here, capsys, monkeypatch):
    monkeypatch.setattr(dry_run, "MEASURE_SECONDS", 0.0)
    assert main(["ptb", "--smoke", "--dry-run", "--estimators", "gumbel"]) == 0
    said = capsys.readouterr().out
    assert "memory.cells" in said
    assert "tried first: 1 configurations of the paper" in said
    assert "estimator.gamma" not in said
    assert list(here.iterdir()) == []
