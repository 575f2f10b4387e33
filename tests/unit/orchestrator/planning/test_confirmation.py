"""The best few of a search are trained again with other seeds."""

import pytest

from orchestrator.api import confirmation_of
from orchestrator.planning.plan import load_plan
from orchestrator.results.records import Records
from tests.support.sweep_logs import fill, make_plan


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
