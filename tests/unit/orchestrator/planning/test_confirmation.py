"""The best few of a search are trained again with other seeds."""

from dataclasses import replace

import pytest

from orchestrator.planning.arguments import search_options
from orchestrator.planning.plan import load_plan
from orchestrator.planning.planner import plan_from
from orchestrator.results.records import Records
from orchestrator.sweep_session import confirmation_of
from tardis_core.errors import UserError
from tests.support.sweep_logs import comparison_plan, fill, make_plan


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_confirmation_trains_the_best_trials_with_other_seeds_and_is_planned_once():
    plan = make_plan(confirm_seeds=2, seed=5)
    fill(plan, [0.5, 0.1, 0.3, 0.4, None])
    records = Records.load(plan)
    again = confirmation_of(records)
    assert [each.label for each in again.candidates] == ["trial 1", "trial 2", "trial 3"]
    assert (again.seeds, again.trials, again.confirms) == ((6, 7), 6, "s")
    assert again.sweep_id != plan.sweep_id
    rates = [job.settings["training.learning_rate"] for job in again.jobs()]
    trials = records.trials
    assert rates[:3] == [trials[n].params["training.learning_rate"] for n in (1, 2, 3)]
    again.folder.mkdir()
    again.save()
    assert confirmation_of(records) == again == load_plan("s-seeds")


def test_a_search_without_complete_trials_is_not_confirmed():
    plan = make_plan(confirm_seeds=2)
    fill(plan, [None])
    assert confirmation_of(Records.load(plan)) is None


def test_a_search_without_confirm_seeds_is_not_confirmed():
    plan = make_plan()
    fill(plan, [0.5])
    assert confirmation_of(Records.load(plan)) is None


def test_a_confirmation_is_resumed_with_the_data_folder_and_the_concurrency_of_today(tmp_path):
    plan = make_plan(confirm_seeds=2, concurrency=4)
    fill(plan, [0.5])
    again = confirmation_of(Records.load(plan))
    again.folder.mkdir()
    again.save()
    today = replace(plan, concurrency=1, data_dir=str(tmp_path))
    resumed = confirmation_of(Records.load(today))
    assert resumed == replace(again, concurrency=1, data_dir=str(tmp_path))


def test_a_confirmation_trains_one_seed_per_trial_where_the_seeds_of_the_search_raced():
    plan = make_plan(confirm_seeds=1, race=True, seeds_per_trial=2, reports=6)
    fill(plan, [0.5])
    again = confirmation_of(Records.load(plan))
    assert again.reports == 3
    # copy at scale smoke has 200 updates, and is validated every 50
    assert again.reports_of(0) == 4


@pytest.mark.parametrize("kind", ["search", "comparison"])
def test_another_sweep_is_not_taken_for_the_confirmation(kind):
    plan = make_plan(confirm_seeds=2)
    fill(plan, [0.5])
    other = (make_plan if kind == "search" else comparison_plan)("s-seeds")
    other.save()
    with pytest.raises(UserError, match="sweeps/s-seeds has another sweep"):
        confirmation_of(Records.load(plan))


@pytest.mark.parametrize("taken", ["n-seeds", "n-seeds2"])
def test_a_search_does_not_start_if_its_confirmation_could_not_have_its_name(taken):
    comparison_plan(taken).save()
    words = ["copy", "--smoke", "--name", "n"]
    assert plan_from(search_options(words)).name == "n"
    with pytest.raises(UserError, match=f"there is a sweep '{taken}' already"):
        plan_from(search_options([*words, "--confirm-seeds", "2"]))
