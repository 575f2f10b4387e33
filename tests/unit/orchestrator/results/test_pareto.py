"""The Pareto front of two objectives: which trials it has, and where it is shown."""

import optuna
import pytest

from orchestrator.page.page import Plot, Table
from orchestrator.planning.arguments import search_options
from orchestrator.planning.planner import plan_from
from orchestrator.results import pareto, report, search_page
from orchestrator.results.pareto import Point
from orchestrator.results.records import Records
from tardis_core.errors import UserError
from tests.support.sweep_logs import FAILED, PRUNED, make_plan, params_of, record

SIZES = {0: 300, 1: 100, 2: 400, 3: 100, 4: 50, 5: 10}
VALUES = {0: 0.1, 1: 0.2, 2: 0.1, 3: 0.3, 4: 0.4, 5: 0.01}


@pytest.fixture
def records(tmp_path, monkeypatch):
    """Complete trials 0 to 3; trial 4 was pruned, and trial 5 failed."""
    monkeypatch.chdir(tmp_path)
    plan = make_plan(objectives=("bce", "parameters"))
    for number, size in SIZES.items():
        status, marks = {4: PRUNED, 5: FAILED}.get(number, ("FINISHED", {}))
        ending = status, {**marks, "parameters": str(size)}
        record(plan, number, [1.0, VALUES[number]], ending, params_of(1e-3 * (1 + number)))
    return Records.load(plan)


def test_the_front_has_the_complete_trials_that_no_other_beats(records):
    assert pareto.table(records).values.tolist() == [[0, 0.1, 300], [1, 0.2, 100]]
    heading, heads, *rows = pareto.text(records).splitlines()
    assert heading == "Pareto front of bce and parameters (trials: 2):"
    assert heads.split() == ["trial", "bce", "parameters"]
    assert [row.split() for row in rows] == [["0", "0.1000", "300"], ["1", "0.2000", "100"]]


def test_a_large_network_is_counted_in_whole_parameters(records):
    ending = ("FINISHED", {"parameters": "1234567"})
    record(records.plan, 6, [0.05], ending, params_of(1e-3))
    assert pareto.text(Records.load(records.plan)).splitlines()[2].split()[-1] == "1234567"


@pytest.mark.parametrize(
    ("better", "expected"), [("lower", [(0, 1.0, 2.0)]), ("higher", [(1, 3.0, 4.0), (0, 1.0, 2.0)])]
)
def test_higher_may_be_better(better, expected):
    candidates = [Point(0, 1.0, 2.0), Point(1, 3.0, 4.0), Point(2, 1.0, 5.0)]
    assert pareto.front(candidates, better) == expected


def test_seconds_are_those_of_the_training(records, monkeypatch):
    plan = make_plan("timed", objectives=("bce", "seconds"))
    record(plan, 0, [0.3, 0.2], ("FINISHED", {}), params_of(1e-3))
    assert pareto.points(Records.load(plan)) == [Point(0, 0.2, 1.0)]


@pytest.mark.slow
def test_it_is_in_the_report_and_in_a_file(records, tmp_path):
    records._study = optuna.create_study()
    (section,) = [
        each for each in search_page.page(records).sections if each.title == "Pareto front"
    ]
    plot, table = section.parts
    assert isinstance(plot, Plot)
    assert plot.values["front"] == [[0, 300.0, 0.1], [1, 100.0, 0.2]]
    assert len(plot.values["points"]) == 4
    assert isinstance(table, Table)
    assert table.rows == [("0", "0.1000", "300"), ("1", "0.2000", "100")]
    report.write_tables(records, tmp_path)
    assert (tmp_path / "pareto.csv").read_text().splitlines()[1] == "0,0.1,300.0"


def test_a_search_with_one_objective_has_no_front(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    records = Records.load(make_plan())
    assert pareto.text(records) == ""
    assert pareto.section(records) is None


@pytest.mark.parametrize("words", ["bce", "bpc,parameters", "bce,speed", "bce,seconds,parameters"])
def test_other_objectives_are_refused(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    expected = f"bce,parameters or bce,seconds, not {words}"
    with pytest.raises(UserError, match=expected):
        plan_from(search_options(["copy", "--smoke", "--objectives", words]))
    plan = plan_from(search_options(["copy", "--smoke", "--objectives", "bce,seconds"]))
    assert plan.objectives == ("bce", "seconds")
