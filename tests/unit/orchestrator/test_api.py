"""Sweeps from Python: the same plans as by the command, the results as tables."""

import pytest

import orchestrator
from orchestrator.api import Sweep, sweep, words
from orchestrator.planning.options import parser, plan_from
from tardis_core.errors import UserError
from tests.support.sweep_logs import fill, make_plan


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def test_the_package_offers_the_function():
    assert orchestrator.sweep is sweep
    with pytest.raises(AttributeError, match="no attribute 'sweeep'"):
        orchestrator.sweeep  # noqa: B018


def test_options_are_those_of_the_command():
    made = words(
        "copy",
        smoke=True,
        dry_run=False,
        trials=3,
        estimators=["gumbel", "reinforce"],
        set={"memory.cells": 4, "model.hidden": 8},
        name=None,
    )
    assert made == [
        *("copy", "--smoke", "--trials", "3", "--estimators", "gumbel,reinforce"),
        *("--set", "memory.cells=4", "--set", "model.hidden=8"),
    ]
    plan = plan_from(parser().parse_args(made))
    assert (plan.trials, plan.scale, plan.fixed) == (
        3,
        "smoke",
        {"memory.cells": "4", "model.hidden": "8"},
    )


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("copi", {}, "unknown task 'copi'"),
        ("copy", {"trials": 0}, "--trials is a whole number from 1"),
        ("copy", {"trails": 3}, "--trails"),
        (None, {"resume": "nobody"}, "there is no sweep 'nobody'"),
    ],
)
def test_what_is_wrong_is_raised_before_anything_is_written(here, task, options, message):
    with pytest.raises(UserError, match=message):
        sweep(task, **options)
    assert not list(here.iterdir())


def test_results_are_tables():
    plan = make_plan(seed=1)
    fill(plan, [0.5, None, 0.1, (0.05,), 0.3, 0.2])
    plan.save()
    found = Sweep.load("s")
    assert found.finished
    assert found.leaderboard["number"].tolist()[0] == 2
    rates = found.leaderboard["training.learning_rate"]
    assert found.best_config.training.learning_rate == rates[0]
    assert (rates * 2).max() < 0.1  # settings that are numbers are numbers
    assert set(found.leaderboard["estimator"]) <= {"gumbel", "reinforce"}
    assert len(found.curves) == 4 * 3 + 1


def test_a_sweep_that_is_not_done_says_so():
    plan = make_plan()
    fill(plan, [0.5, None])
    plan.save()
    assert not Sweep.load("s").finished
