"""The report of a sweep: the best first, and pictures where there is something to draw."""

import json

import optuna
import pandas as pd
import pytest
from optuna.trial import TrialState

from orchestrator import leaderboard, report
from orchestrator.plan import SweepPlan
from orchestrator.search import study_storage


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = SweepPlan("s", "copy", "smoke", trials=6, metric="bce", better="lower")
    made.folder.mkdir(parents=True)
    return made


def fill(plan, values):
    """Trials with these values: None is a failure, a tuple the last value of a pruned one."""
    study = optuna.create_study(
        study_name=plan.name, storage=study_storage(plan.folder), direction="minimize"
    )
    for number, value in enumerate(values):
        trial = study.ask()
        trial.suggest_float("training.learning_rate", 1e-4, 1e-2, log=True)
        trial.suggest_categorical("estimator", ["gumbel", "reinforce"])
        if value is None:
            study.tell(trial, state=TrialState.FAIL)
        elif isinstance(value, tuple):
            trial.report(value[0], 1)
            study.tell(trial, state=TrialState.PRUNED)
        else:
            trial.report(value, number)
            study.tell(trial, value)


def test_the_best_complete_trial_leads_then_pruned_then_failed(plan):
    fill(plan, [0.5, None, 0.1, (0.05,), 0.3])
    table = leaderboard.table(plan)
    assert table["number"].tolist() == [2, 4, 0, 3, 1]
    assert table["state"].tolist() == ["complete"] * 3 + ["pruned", "fail"]
    assert table["objective"].tolist()[:4] == [0.1, 0.3, 0.5, 0.05]


def test_where_more_is_better_the_greatest_leads(plan):
    fill(plan, [0.5, 0.1, 0.3])
    assert leaderboard.table(SweepPlan(**{**vars(plan), "better": "higher"}))["number"][0] == 0


def test_the_text_shows_what_differs_under_the_name_of_the_metric(plan):
    fill(plan, [0.5, 0.1])
    text = leaderboard.text(plan)
    assert "bce" in text
    assert "training.learning_rate" in text


def test_the_report_has_tables_pictures_and_the_best_configuration(plan):
    fill(plan, [0.5, 0.1, 0.3, (0.4,)])
    artifacts = report.write(plan)
    folder = plan.folder / "report"
    assert pd.read_csv(folder / "leaderboard.csv")["number"][0] == 1
    best = json.loads((folder / "best_config.json").read_text())
    assert (best["number"], best["bce"]) == (1, 0.1)
    for name in ("history.png", "parallel_coordinate.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert {artifact.number for artifact in artifacts} == {None}
    assert str(plan.folder / "study.log") in {artifact.path for artifact in artifacts}


def test_a_sweep_without_a_complete_trial_has_a_report_too(plan):
    fill(plan, [None, None])
    report.write(plan)
    assert not (plan.folder / "report" / "best_config.json").exists()
    assert "fail" in leaderboard.text(plan)
