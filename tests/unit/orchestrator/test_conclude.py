"""The end of a sweep: its report, and the events that are recorded about it."""

import json

import optuna
import pandas as pd
import pytest

from orchestrator.models import export
from orchestrator.results import records
from orchestrator.sweep_session import conclude
from orchestrator.tracking import event_log
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Artifact, Model, SweepMetrics, SweepTags
from tardis_core.registry import Registry
from tests.support.sweep_logs import (
    COMPLETE,
    comparison_plan,
    fill,
    fill_comparison,
    make_plan,
    params_of,
    put_weights,
    record,
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def count_calls(monkeypatch, owner, name):
    calls, original = [], getattr(owner, name)

    def counted(*arguments, **options):
        calls.append(arguments)
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, counted)
    return calls


def models(events):
    return [event for event in events if isinstance(event, Model)]


@pytest.mark.slow
def test_the_log_is_read_once_and_the_study_opened_once(monkeypatch):
    plan = make_plan()
    fill(plan, [0.5, 0.1, 0.3, (0.4,)])
    put_weights(plan, 1)
    scans = count_calls(monkeypatch, records, "scan")
    elsewhere = count_calls(monkeypatch, event_log, "scan")
    studies = count_calls(monkeypatch, optuna, "load_study")
    assert models(conclude(plan, None, finished=True))
    assert (len(scans), len(elsewhere), len(studies)) == (1, 0, 1)


def test_a_comparison_reads_the_log_once_and_opens_no_study(monkeypatch):
    plan = comparison_plan()
    fill_comparison(plan, {"a": [0.1, 0.9, 0.9], "b": [0.5, 0.3, 0.4]})
    scans = count_calls(monkeypatch, records, "scan")
    studies = count_calls(monkeypatch, optuna, "load_study")
    conclude(plan, None, finished=True)
    assert (len(scans), len(studies)) == (1, 0)


def test_the_report_of_a_search_is_recorded_with_its_study():
    plan = make_plan()
    fill(plan, [0.5, 0.1, 0.3, (0.4,)])
    events = conclude(plan, None, finished=True)
    artifacts = [event for event in events if isinstance(event, Artifact)]
    assert {event.number for event in artifacts} == {None}  # no trial has left weights
    paths = {event.path for event in artifacts}
    folder = plan.folder / "report"
    for name in ("leaderboard.csv", "best_config.json", "report.html"):
        assert str(folder / name) in paths
    assert str(plan.folder / "study.log") in paths
    (note,) = [event.tags for event in events if isinstance(event, SweepTags)]
    assert "3 complete, 1 pruned" in note["mlflow.note.content"]


def test_the_best_validation_of_a_search_whose_trials_train_longer_is_recorded_again():
    plan = make_plan()
    fill(plan, [0.5, 0.1])
    log = EventLog(plan.folder)
    log.append(*conclude(plan, None, finished=True))
    log.close()
    record(plan, 0, [0.6, 0.5, 0.6, 0.05], COMPLETE, {})
    log = EventLog(plan.folder)
    for _ in range(2):  # the second time nothing is new
        log.append(*conclude(plan, None, finished=True))
    metrics = [event for event, _ in log.read(0) if isinstance(event, SweepMetrics)]
    log.close()
    assert [event.values["best_valid_bce"] for event in metrics] == [0.1, 0.05]
    assert metrics[0].step < metrics[1].step  # MLflow takes the last step for the newest


@pytest.mark.slow
def test_a_finished_search_offers_its_best_model_as_champion():
    plan = make_plan()
    fill(plan, [0.5, 0.1, 0.3])
    put_weights(plan, 1)
    (model,) = models(conclude(plan, None, finished=True))
    assert (model.number, model.name, model.value) == (1, "tardis-copy", 0.1)
    assert model.tags["measured_on"].startswith("copy, task.shortest=1, task.longest=5")
    assert models(conclude(plan, None, finished=False)) == []


def test_the_value_of_a_champion_is_that_of_the_weights_that_are_kept():
    plan = make_plan()
    fill(plan, [0.5])
    params = {**params_of(1e-3), "training.updates": "40", "memory.vary_cells_from": "0.5"}
    record(plan, 1, [0.1, 0.2, 0.4, 0.3], COMPLETE, params)  # its cells vary from update 20 on
    put_weights(plan, 1)
    (model,) = models(conclude(plan, None, finished=True))
    assert (model.number, model.value) == (1, 0.3)


def test_a_task_that_is_not_served_offers_no_champion(monkeypatch):
    plan = make_plan()
    fill(plan, [0.5, 0.1])
    put_weights(plan, 1)
    monkeypatch.setattr(export, "PREDICTORS", Registry("predictor", "tardis_core.data"))
    events = conclude(plan, None, finished=True)
    assert models(events) == []
    assert 1 in [event.number for event in events if isinstance(event, Artifact)]


def test_the_best_of_an_extended_sweep_may_be_of_an_earlier_part():
    plan = make_plan()
    fill(plan, [0.5, 0.1])
    put_weights(plan, 1)
    events = conclude(plan.with_more_trials(2), None, finished=True)
    assert [event.number for event in models(events)] == [1]


def test_a_search_that_will_be_confirmed_offers_no_champion_yet():
    plan = make_plan(confirm_seeds=2)
    fill(plan, [0.5, 0.1])
    put_weights(plan, 1)
    assert models(conclude(plan, None, finished=True)) == []


@pytest.mark.slow
def test_the_seeds_of_a_confirmation_decide_which_model_is_offered():
    plan = comparison_plan(confirms="s")
    fill_comparison(plan, {"a": [0.1, 0.9, 0.9], "b": [0.5, 0.3, 0.4]})
    for number in range(6):
        put_weights(plan, number)
    (model,) = models(conclude(plan, None, finished=True))
    assert plan.candidate_of(model.number).label == "b"
    assert model.value == 0.3
    table = pd.read_csv(plan.folder / "report" / "comparison.csv")
    assert table["candidate"].tolist() == ["b", "a"]


def test_the_best_configuration_of_a_comparison_is_chosen_by_validation():
    plan = comparison_plan(seeds=(1,))
    for number, (valid, test) in enumerate([(0.2, 0.9), (0.4, 0.1)]):
        record(plan, number, [valid], COMPLETE, params_of(3e-3, 1), test)
    conclude(plan, None, finished=True)
    best = json.loads((plan.folder / "report" / "best_config.json").read_text())
    assert (best["number"], best["bce"]) == (0, 0.2)


@pytest.mark.slow
def test_a_plain_comparison_offers_no_champion():
    plan = comparison_plan()
    fill_comparison(plan, {"a": [0.1, 0.9, 0.9], "b": [0.5, 0.3, 0.4]})
    for number in range(6):
        put_weights(plan, number)
    assert models(conclude(plan, None, finished=True)) == []


def test_a_storage_that_is_away_costs_the_weights_and_not_the_report(monkeypatch):
    def away(*arguments):
        raise OSError("no route to host")

    plan = make_plan()
    fill(plan, [0.5, 0.1])
    monkeypatch.setattr("orchestrator.results.report.fetch_best", away)
    events = conclude(plan, None, finished=True)
    assert models(events) == []
    assert (plan.folder / "report" / "best_config.json").exists()


def test_a_trial_that_is_cut_off_with_its_sweep_is_not_reported_as_running():
    plan = make_plan()
    fill(plan, [0.5, 0.1])
    record(plan, 2, [0.4], None, params_of(1e-3))
    conclude(plan, None, finished=False)
    table = pd.read_csv(plan.folder / "report" / "leaderboard.csv")
    assert table["state"].tolist() == ["complete", "complete", "stopped"]
