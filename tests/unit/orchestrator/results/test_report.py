"""The report of a sweep: the best first, pictures where there is something to draw, the models."""

import json
import shlex
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
import pytest

from orchestrator.planning.plan import SearchPlan, load_plan
from orchestrator.results import leaderboard, plots, records, report
from orchestrator.sweep_command import confirmation_of
from orchestrator.tracking.events import Artifact, Model, SweepTags
from tardis_core.registry import Registry
from tardis_core.train import main as train
from tardis_core.training import checkpoint
from tests.support.sweep_logs import (
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


def test_the_best_complete_trial_leads_then_pruned_then_failed():
    plan = make_plan()
    fill(plan, [0.5, None, 0.1, (0.05,), 0.3])
    table = leaderboard.table(plan)
    assert table["number"].tolist() == [2, 4, 0, 3, 1]
    assert table["state"].tolist() == ["complete"] * 3 + ["pruned", "failed"]
    assert table["objective"].tolist()[:4] == [0.1, 0.3, 0.5, 0.05]
    assert table["step"].tolist()[:4] == [20, 20, 20, 10]
    assert leaderboard.best(plan, 2) == [2, 4]


def test_where_more_is_better_the_greatest_leads():
    plan = make_plan()
    fill(plan, [0.5, 0.1, 0.3])
    assert leaderboard.table(SearchPlan(**{**vars(plan), "better": "higher"}))["number"][0] == 0


def test_the_text_shows_what_differs_under_the_name_of_the_metric(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # room for every column
    plan = make_plan()
    fill(plan, [0.5, 0.1])
    text = leaderboard.text(plan)
    assert "bce" in text
    assert "training.learning_rate" in text
    assert "model.hidden" not in text


def test_the_description_of_the_sweep_is_a_table_of_its_leading_trials():
    plan = make_plan()
    fill(plan, [0.5, None, 0.125, (0.05,)])
    events = report.write(plan, None, finished=False)
    (note,) = [
        event.tags["mlflow.note.content"] for event in events if isinstance(event, SweepTags)
    ]
    lines = note.splitlines()
    assert "2 complete, 1 pruned, 1 failed" in lines[0]
    assert lines[2].startswith("| number | state | bce | validations |")
    assert lines[4].startswith("| 2 | complete | 0.125 |")
    assert len({line.count("|") for line in lines[2:]}) == 1


def test_a_trial_that_still_runs_or_was_stopped_is_named_so():
    plan = make_plan()
    record(plan, 0, [0.5], None, params_of(1e-3))
    record(plan, 1, [0.4], ("KILLED", {"interrupted": "true"}), params_of(1e-3))
    states = {trial.number: (trial.state, trial.ended) for trial in records.read(plan).values()}
    assert states == {0: ("running", False), 1: ("stopped", False)}


def test_the_report_has_tables_pictures_and_the_best_configuration():
    plan = make_plan()
    fill(plan, [0.5, 0.1, 0.3, (0.4,)])
    events = report.write(plan, None, finished=True)
    folder = plan.folder / "report"
    assert pd.read_csv(folder / "leaderboard.csv")["number"][0] == 1
    best = json.loads((folder / "best_config.json").read_text())
    assert (best["number"], best["bce"]) == (1, 0.1)
    for name in ("history.png", "parallel_coordinate.png", "importance.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    artifacts = [event for event in events if isinstance(event, Artifact)]
    assert {event.number for event in artifacts} == {None}  # nobody has left weights
    assert str(plan.folder / "study.log") in {event.path for event in artifacts}


def test_the_command_names_the_data_of_the_sweep():
    plan = make_plan(data_dir="my data", data="real")
    fill(plan, [0.5])
    assert "--data-dir 'my data' --data real\n" in report.command_of(plan, 0)


def test_the_best_configuration_comes_as_a_command_that_trains_it(capsys):
    plan = make_plan()
    fill(plan, [0.5, 0.1])
    report.write(plan, None, finished=True)
    best = json.loads((plan.folder / "report" / "best_config.json").read_text())
    words = shlex.split(best["command"])
    assert words[:3] == ["python", "-m", "tardis_core.train"]
    assert train([*words[3:], "--set", "help"]) == 0
    printed = capsys.readouterr().out
    for key, value in best["config"]["settings"].items():
        assert f"{key}={value}\n" in printed


def test_a_sweep_without_a_complete_trial_has_a_report_too():
    plan = make_plan()
    fill(plan, [None, None])
    report.write(plan, None, finished=True)
    assert not (plan.folder / "report" / "best_config.json").exists()
    assert "failed" in leaderboard.text(plan)


def test_the_weights_of_the_best_are_kept_and_the_best_is_offered_as_champion():
    plan = make_plan()
    fill(plan, [0.5, 0.1, 0.3, 0.4, (0.01,)])
    for number in range(5):
        put_weights(plan, number)
    events = report.write(plan, None, finished=True)
    kept = [event for event in events if isinstance(event, Artifact) and event.number]
    assert [event.number for event in kept if event.artifact_path == "checkpoint"] == [1, 2, 3]
    drawn = [event for event in kept if event.path.endswith("memory_access.png")]
    assert [event.number for event in drawn] == [1, 2, 3]
    assert Path(drawn[0].path).read_bytes().startswith(b"\x89PNG")
    (model,) = [event for event in events if isinstance(event, Model)]
    assert (model.number, model.name, model.value) == (1, "tardis-copy", 0.1)
    assert model.tags["measured_on"].startswith("copy, task.shortest=1, task.longest=5")
    assert not any(isinstance(event, Model) for event in report.write(plan, None, finished=False))


def test_drawing_leaves_a_notebook_its_backend():
    plan = make_plan()
    fill(plan, [0.5, 0.1, 0.3])
    before = matplotlib.get_backend()
    plt.switch_backend("svg")
    try:
        report.write(plan, None, finished=False)
        assert matplotlib.get_backend() == "svg"
    finally:
        plt.switch_backend(before)
    assert (plan.folder / "report" / "history.png").exists()


def test_drawing_leaves_no_figure_open_even_if_it_fails(monkeypatch):
    def fails(study, **more):
        plt.subplots()
        raise ValueError("not enough trials")

    plan = make_plan()
    fill(plan, [0.5, 0.1, 0.3])
    monkeypatch.setattr(plots.draw, "plot_param_importances", fails)
    own = plt.figure()
    before = plt.get_fignums()
    report.write(plan, None, finished=False)
    assert plt.get_fignums() == before
    plt.close(own)


def test_a_task_that_is_not_served_has_no_champion_and_all_the_rest(monkeypatch):
    plan = make_plan()
    fill(plan, [0.5, 0.1])
    put_weights(plan, 1)
    monkeypatch.setattr(report, "PREDICTORS", Registry("predictor", "tardis_core.data"))
    events = report.write(plan, None, finished=True)
    assert not any(isinstance(event, Model) for event in events)
    kept = [event.number for event in events if isinstance(event, Artifact) and event.number]
    assert 1 in kept


def test_the_best_of_an_extended_sweep_may_be_of_an_earlier_part():
    plan = make_plan()
    fill(plan, [0.5, 0.1])
    put_weights(plan, 1)
    events = report.write(plan.with_more_trials(2), None, finished=True)
    assert [event.number for event in events if isinstance(event, Model)] == [1]


def test_the_newest_checkpoint_of_a_trial_is_taken():
    plan = make_plan()
    fill(plan, [0.5, 0.1])
    old = put_weights(plan, 1)
    newer = old.parent.parent / "checkpoint_000002" / "best.pt"
    newer.parent.mkdir()
    values = checkpoint.load(old)
    checkpoint.save(newer, {**values, "metric": 0.25})
    report.write(plan, None, finished=False)
    kept = checkpoint.load(plan.folder / "best" / "trial-1" / "best.pt")
    assert kept["metric"] == 0.25


def test_the_best_few_are_trained_again_with_other_seeds_once():
    plan = make_plan(confirm_seeds=2, seed=5)
    fill(plan, [0.5, 0.1, 0.3, 0.4, None])
    again = confirmation_of(plan)
    assert [each.label for each in again.candidates] == ["trial 1", "trial 2", "trial 3"]
    assert (again.seeds, again.trials, again.confirms) == ((6, 7), 6, "s")
    assert again.sweep_id != plan.sweep_id
    rates = [job.settings["training.learning_rate"] for job in again.jobs()]
    trials = records.read(plan)
    assert rates[:3] == [trials[n].params["training.learning_rate"] for n in (1, 2, 3)]
    again.folder.mkdir()
    again.save()
    assert confirmation_of(plan) == again == load_plan("s-seeds")


def test_nothing_is_trained_again_where_nothing_was_trained():
    plan = make_plan(confirm_seeds=2)
    fill(plan, [None])
    assert confirmation_of(plan) is None


def test_seeds_decide_which_model_is_offered():
    plan = comparison_plan(confirms="s")
    fill_comparison(plan, {"a": [0.1, 0.9, 0.9], "b": [0.5, 0.3, 0.4]})
    for number in range(6):
        put_weights(plan, number)
    events = report.write(plan, None, finished=True)
    (model,) = [event for event in events if isinstance(event, Model)]
    assert plan.candidate_of(model.number).label == "b"
    assert model.value == 0.3
    table = pd.read_csv(plan.folder / "report" / "comparison.csv")
    assert table["system"].tolist() == ["b", "a"]


def test_a_plain_comparison_offers_no_champion():
    plan = comparison_plan()
    fill_comparison(plan, {"a": [0.1, 0.9, 0.9], "b": [0.5, 0.3, 0.4]})
    for number in range(6):
        put_weights(plan, number)
    events = report.write(plan, None, finished=True)
    assert not any(isinstance(event, Model) for event in events)
