"""What the plots of a search show."""

import pytest

from orchestrator.results.plots.curves import Grids, curves
from orchestrator.results.plots.history import history
from orchestrator.results.plots.importance import ENOUGH, importance, importances
from orchestrator.results.plots.parallel import parallel
from orchestrator.results.records import Records
from tests.support.sweep_logs import fill, make_plan


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def filled(values):
    plan = make_plan()
    fill(plan, values)
    return Records.load(plan)


def test_every_trial_has_a_curve_and_the_best_stands_out():
    plot = curves(filled([0.5, None, 0.125, (0.05,)])).values
    looks = {line["name"]: line["look"] for line in plot["series"]}
    expected = {"trial 0, complete": "complete", "trial 2, complete": "best"}
    assert looks == {**expected, "trial 3, pruned": "pruned"}
    assert plot["grids"] == [[10, 20, 30]]  # the pruned trial shares the places of the others
    assert plot["series"][1]["y"] == [1.125, 0.125, 0.625]


def test_curves_share_places_as_far_as_they_agree():
    grids = Grids()
    assert [grids.index_of(each) for each in ([1.0], [1.0, 2.0], [5.0], [1.0])] == [0, 0, 1, 0]
    assert grids.every == [[1.0, 2.0], [5.0]]


def test_the_history_has_pruned_and_failed_trials():
    plot = history(filled([0.5, None, 0.125, (0.05,)])).values
    assert plot["points"] == [
        (0, 0.5, "complete"),
        (1, None, "failed"),
        (2, 0.125, "complete"),
        (3, 0.05, "pruned"),
    ]


def test_few_complete_trials_have_no_importance():
    assert importances(filled([0.5, 0.1, 0.3, (0.4,)]).study()) == {}
    shares = importances(filled_named("many", [n / 7 % 1 for n in range(ENOUGH)]).study())
    assert set(shares) == {"training.learning_rate", "estimator"}
    assert sum(shares.values()) == pytest.approx(1)
    assert importance(shares).values["bars"][0][0] in shares
    assert importance({}) is None


def filled_named(name, values):
    plan = make_plan(name)
    fill(plan, values)
    return Records.load(plan)


def test_the_axes_of_a_search_hold_numbers_and_names():
    values = [n / 10 for n in range(1, 9)]
    plot = parallel(filled(values), ["training.learning_rate", "estimator"]).values
    rates, kinds = plot["axes"]
    assert (rates["choices"], kinds["choices"]) == (None, ["gumbel", "reinforce"])
    assert all(1e-4 <= value <= 1e-2 for value in rates["values"])
    assert set(kinds["values"]) <= {0, 1}
    assert plot["objective"] == values


def test_without_a_validation_there_is_nothing_to_draw():
    records = filled([None, None])
    assert (curves(records), history(records), parallel(records, ["estimator"])) == (None,) * 3
