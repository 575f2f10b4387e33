"""The two kinds of plan, and how they are saved and loaded."""

import json
from dataclasses import asdict

import pytest

from orchestrator.planning.configs import space_of
from orchestrator.planning.options import ComparisonOptions, SearchOptions
from orchestrator.planning.plan import (
    PLAN_FILE,
    Candidate,
    ComparisonPlan,
    SearchPlan,
    SweepPlan,
    load_plan,
)
from orchestrator.planning.planner import plan_from
from tardis_core.errors import UserError
from tests.support.sweep_logs import comparison_plan, make_plan

# All fields that a plan had when searches and comparisons were one class.
OLD_SEARCH = {
    "models": ["tardis"],
    "estimators": ["gumbel"],
    "space": None,
    "seeds_per_trial": 2,
    "judge": "mean",
    "grace": 0.5,
    "replicates": 3,
    "part": 1,
}
OLD_COMPARISON = {"candidates": [], "seeds": [], "test": False, "replicates_of": ""}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def save_old(plan: SweepPlan, **own) -> None:
    common = {key: value for key, value in asdict(plan).items() if key in SweepPlan.__annotations__}
    values = {**common, **OLD_SEARCH, **OLD_COMPARISON, **own}
    (plan.folder / PLAN_FILE).write_text(json.dumps(values))


@pytest.mark.parametrize("make", [make_plan, comparison_plan])
def test_a_saved_plan_loads_as_the_kind_it_was(make):
    plan = make()
    plan.save()
    assert json.loads((plan.folder / PLAN_FILE).read_text())["kind"] == plan.kind
    assert load_plan(plan.name) == plan
    assert type(load_plan(plan.name)) is type(plan)


def test_a_search_saved_without_a_kind_still_loads():
    save_old(make_plan("s"))
    plan = load_plan("s")
    assert isinstance(plan, SearchPlan)
    assert (plan.aggregate, plan.confirm_seeds, plan.seeds_per_trial) == ("mean", 3, 2)
    assert (plan.models, plan.estimators, plan.part) == (("tardis",), ("gumbel",), 1)


def test_a_comparison_saved_without_a_kind_still_loads():
    candidates = [{"label": "a", "settings": {"model": "lstm"}}]
    save_old(comparison_plan("c"), candidates=candidates, seeds=[4, 5], replicates_of="s")
    plan = load_plan("c")
    assert isinstance(plan, ComparisonPlan)
    assert plan.candidates == (Candidate("a", {"model": "lstm"}),)
    assert (plan.seeds, plan.confirms, plan.test) == ((4, 5), "s", False)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "party"}, "its kind is 'party', not one of search, comparison"),
        ({"colour": "red"}, "colour"),
        ({"name": "other"}, "it is called 'other'"),
        ({"sweep_id": "../x"}, "the name of a sweep"),
        ({"trials": "8"}, "trials is '8', not a whole number"),
        ({"trials": -8}, "trials is -8, less than 1"),
        ({"trials": True}, "trials is True, not a whole number"),
        ({"cpus_per_trial": float("nan")}, "cpus_per_trial is nan, not a number"),
        ({"fixed": ["x"]}, "fixed is"),
        ({"fixed": {"x.y": 1}}, "fixed is"),
        ({"models": [1]}, "models is"),
        ({"better": "redder"}, "better is 'redder'"),
        ({"grace": 2}, "grace is 2, more than 1"),
        ({"aggregate": "median"}, "aggregate is 'median'"),
    ],
)
def test_a_damaged_plan_is_refused_with_its_reason(change, reason):
    plan = make_plan()
    plan.save()
    path = plan.folder / PLAN_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UserError, match=reason):
        load_plan("s")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"metric": "xyz"}, "the metric of copy is bce"),
        ({"better": "higher"}, "the metric of copy is bce, and lower is better"),
        ({"scale": "huge"}, "unknown scale 'huge'"),
        ({"task": "juggling"}, "juggling"),
        ({"fixed": {"x.y": "1"}}, "x.y"),
        ({"models": ["robot"]}, "robot"),
    ],
)
@pytest.mark.parametrize("how", [{"resume": "s"}, {"extend": "s", "trials": 2}])
def test_a_sweep_is_not_continued_by_a_plan_that_no_options_give(change, reason, how):
    plan = make_plan()
    plan.save()
    path = plan.folder / PLAN_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UserError, match=f"sweep.json is damaged .*{reason}"):
        plan_from(SearchOptions(**how))


def test_a_comparison_trains_every_candidate_with_one_seed_before_the_next():
    plan = comparison_plan(labels=("a", "b"), seeds=(7, 9))
    assert [(job.number, job.candidate.label, job.seed) for job in plan.jobs()] == [
        (0, "a", 7),
        (1, "b", 7),
        (2, "a", 9),
        (3, "b", 9),
    ]
    assert plan.jobs()[3].settings == {"model": "tardis", "seed": 9}
    assert [plan.title(job.number) for job in plan.jobs()][1:3] == ["b, seed 7", "a, seed 9"]
    assert plan.trial_tags(2) == {"candidate": "a"}


def test_each_kind_says_how_its_trials_are_trained_and_what_it_is():
    search = make_plan("one", seeds_per_trial=3, aggregate="mean")
    comparison = comparison_plan("two", test=True, confirms="one")
    assert search.protocol == (3, "mean", False, False)
    assert (comparison.protocol.seeds, comparison.protocol.test) == (1, True)
    assert search.tags == {"task": "copy", "scale": "smoke", "kind": "search"}
    assert comparison.tags["kind"] == "comparison"
    assert comparison.tags["confirms"] == "one"
    assert comparison.size == "6 trials of copy (2 candidates, 3 seeds)"


def test_a_model_is_offered_by_a_search_or_by_its_confirmation_but_not_by_both():
    assert make_plan("one").offers_model
    assert not make_plan("two", confirm_seeds=2).offers_model
    assert comparison_plan("three", confirms="two").offers_model
    assert not comparison_plan("four").offers_model


def test_a_plan_without_a_kind_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        SweepPlan("s", "copy", "smoke", 1, "bce", "lower")


@pytest.mark.parametrize("how", [{"resume": "s"}, {"extend": "s", "trials": 2}])
def test_no_code_of_a_folder_that_others_can_write_runs_even_to_plan(tmp_path, how):
    (tmp_path / "own.py").write_text("def space(trial, scale, estimators):\n    return {}\n")
    plan = make_plan(space=str(tmp_path / "own.py"))
    plan.save()
    (plan.folder / "space.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    plan.folder.chmod(0o777)
    with pytest.raises(UserError, match="can be written by everyone"):
        plan_from(SearchOptions(**how, dry_run=True))
    with pytest.raises(UserError, match="can be written by everyone"):
        space_of(plan)
    assert not (tmp_path / "ran").exists()


def test_a_candidate_has_as_many_validations_as_its_own_budget():
    budgets = {"short": 100, "long": 300}
    candidates = [f"lstm,training.updates={n},label={name}" for name, n in budgets.items()]
    more = {"scale": "smoke", "seeds": 2, "set": {"training.evaluate_every": 50}}
    plan = plan_from(ComparisonOptions(task="copy", candidate=tuple(candidates), **more))
    assert [plan.reports_of(number) for number in range(4)] == [2, 6, 2, 6]


def test_set_does_not_silently_change_what_makes_a_candidate_different():
    rates = ("lstm,training.learning_rate=0.002", "lstm,training.learning_rate=0.004,label=fast")

    def asked(*candidates):
        options = {"task": "copy", "scale": "smoke", "candidate": candidates}
        return plan_from(ComparisonOptions(**options, set={"training.learning_rate": 0.002}))

    with pytest.raises(UserError, match=r"every trial, but fast has 0\.004"):
        asked(*rates)
    assert asked(rates[1]).candidates[0].settings["training.learning_rate"] == "0.002"
