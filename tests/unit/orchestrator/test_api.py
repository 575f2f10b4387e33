"""Sweeps from Python: the same plans as from the command line, the results as tables."""

from importlib import import_module

import optuna
import pytest

import orchestrator
from orchestrator import sweep_session
from orchestrator.api import Sweep, compare, sweep
from orchestrator.execution.driver import Outcome
from orchestrator.planning.configs import space_of
from tardis_core.errors import UserError
from tests.support.sweep_logs import comparison_plan, fill, fill_comparison, make_plan, put_weights


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def test_the_package_exports_the_functions_whoever_imports_their_modules():
    for name, function in (("sweep", sweep), ("compare", compare)):
        import_module(f"orchestrator.{name}")
        assert getattr(orchestrator, name) is function
    with pytest.raises(AttributeError, match="no attribute 'sweeep'"):
        orchestrator.sweeep  # noqa: B018


@pytest.fixture
def run_plans(monkeypatch):
    """The plans that would have been run."""
    plans = []

    def run(plan, address=None, callbacks=()):
        plans.append(plan)
        return Outcome(finished=True, waiting=0, refused=0)

    monkeypatch.setattr(sweep_session, "run", run)
    return plans


def test_a_search_has_the_options_of_the_command(run_plans):
    options = {"memory.cells": 4, "model.hidden": 8}
    result = sweep("copy", scale="smoke", trials=3, set=options, time_budget="2m")
    (plan,) = run_plans
    assert result == Sweep(plan, finished=True)
    assert (plan.trials, plan.scale, plan.time_budget) == (3, "smoke", 120.0)
    assert plan.fixed == {"memory.cells": "4", "model.hidden": "8"}
    assert plan.estimators == ("gumbel", "reinforce")
    sweep("copy", scale="smoke", name="two", estimators=["gumbel"], models="tardis,lstm")
    assert (run_plans[-1].estimators, run_plans[-1].models) == (("gumbel",), ("tardis", "lstm"))


def test_a_comparison_has_the_options_of_the_command(run_plans):
    compare("copy", scale="smoke", seeds=2, candidates=["lstm", "tardis:gumbel"], seed=3)
    (plan,) = run_plans
    assert [each.label for each in plan.candidates] == ["lstm", "tardis gumbel"]
    assert (plan.seeds, plan.trials) == ((3, 4), 4)


def test_a_search_is_confirmed_from_python_too(run_plans):
    plan = make_plan(confirm_seeds=2)
    fill(plan, [0.5, 0.1])
    plan.save()
    sweep(resume="s")
    assert [each.name for each in run_plans] == ["s", "s-seeds"]


@pytest.mark.parametrize("function", [sweep, compare])
def test_an_option_that_does_not_exist_runs_nothing(run_plans, function):
    with pytest.raises(TypeError, match="trails"):
        function("copy", trails=2)
    assert not run_plans


@pytest.mark.parametrize("function", [sweep, compare])
def test_a_dry_run_prints_the_plan_and_runs_nothing(run_plans, function, capsys, here, monkeypatch):
    monkeypatch.setattr(sweep_session, "describe", lambda plan, address: f"sweep {plan.name}: ...")
    result = function("copy", scale="smoke", name="n", dry_run=True)
    assert not run_plans
    assert not result.finished
    assert capsys.readouterr().out.startswith("sweep n: ")
    assert not list(here.iterdir())


def my_space(trial):
    return {"model.hidden": trial.suggest_int("model.hidden", 8, 16), "estimator": "gumbel"}


def test_a_function_is_a_search_space(run_plans):
    sweep("copy", scale="smoke", name="n", space=my_space)
    (plan,) = run_plans
    trial = optuna.trial.FixedTrial({"model.hidden": 9})
    assert space_of(plan)(trial) == {"model.hidden": 9, "estimator": "gumbel"}
    with pytest.raises(UserError, match="space must be a plain function"):
        sweep("copy", scale="smoke", space=lambda trial: {})


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("copi", {}, "unknown task 'copi'"),
        ("copy", {"trials": 0}, "--trials must be a whole number from 1, not 0"),
        ("copy", {"trials": 2.5}, "--trials must be a whole number from 1, not 2.5"),
        ("copy", {"scale": "huge"}, "unknown scale 'huge'"),
        ("copy", {"data": "maybe"}, "the data source is 'maybe'"),
        ("copy", {"aggregate": "best"}, "--aggregate must be one of mean, worst, not 'best'"),
        ("copy", {"time_budget": "soon"}, "must be a number with a unit"),
        ("", {"resume": "nobody"}, "there is no sweep 'nobody'"),
    ],
)
def test_errors_are_raised_before_anything_is_written(here, task, options, message):
    with pytest.raises(UserError, match=message):
        sweep(task, **options)
    assert not list(here.iterdir())


def test_the_results_of_a_comparison_are_a_table():
    plan = comparison_plan()
    fill_comparison(plan, {"a": [0.1, 0.9, 0.9], "b": [0.5, 0.3, 0.4]})
    plan.save()
    assert Sweep.load("c").comparison["candidate"].tolist() == ["b", "a"]
    make_plan("s").save()
    with pytest.raises(UserError, match="s is a search"):
        Sweep.load("s").comparison  # noqa: B018


def test_a_sweep_describes_itself_in_a_line_and_in_a_notebook():
    plan = make_plan()
    fill(plan, [0.5, None, 0.1])
    plan.save()
    search = Sweep.load("s")
    assert repr(search) == (
        "<Sweep s: 6 trials of copy, scale smoke, new; 3/6 ended, 0 running, 0 pruned, 1 failed; "
        "best bce 0.1000 (trial 2)>"
    )
    html = search._repr_html_()
    assert html.startswith("<p>Sweep s: 6 trials of copy")
    assert "<table" in html
    assert search.failures == {"diverged": [1]}


def test_a_sweep_is_resumed_and_extended_and_has_its_best_model(run_plans):
    plan = make_plan()
    fill(plan, [0.5, 0.1])
    plan.save()
    put_weights(plan, 1)
    search = Sweep.load("s")
    search.resume()
    assert search.extend(3).plan.trials == 6
    assert [each.trials for each in run_plans] == [6, 9]
    assert sum(each.numel() for each in search.best_model("cpu").parameters()) > 100


def test_results_are_tables():
    plan = make_plan(seed=1)
    fill(plan, [0.5, None, 0.1, (0.05,), 0.3, 0.2])
    plan.save()
    search = Sweep.load("s")
    assert search.finished
    assert search.leaderboard["number"].tolist()[0] == 2
    rates = search.leaderboard["training.learning_rate"]
    assert search.best_config.training.learning_rate == rates[0]
    assert (rates * 2).max() < 0.1  # settings that are numbers are numbers
    assert set(search.leaderboard["estimator"]) <= {"gumbel", "reinforce"}
    assert len(search.curves) == 4 * 3 + 1


def test_a_sweep_with_trials_left_is_not_finished():
    plan = make_plan()
    fill(plan, [0.5, None])
    plan.save()
    assert not Sweep.load("s").finished
