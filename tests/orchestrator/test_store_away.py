"""What commands say where the tracking store is away, or has not got everything."""

import pytest
from mlflow_stores import free_port, fresh_sqlite
from sweep_logs import comparison_plan, fill, fill_comparison, make_plan

from orchestrator import compare, evidence, sweep_command, ui
from orchestrator.doctor import examine
from orchestrator.doctor import main as doctor
from orchestrator.event_log import open_log
from orchestrator.session import Outcome


@pytest.fixture
def away(tmp_path, monkeypatch):
    """A sweep whose tracking server is not there."""
    monkeypatch.chdir(tmp_path)
    plan = make_plan(tracking_uri=f"http://me:hunter2@127.0.0.1:{free_port()}")
    plan.save()
    fill(plan, [0.5])
    return plan


def test_a_store_that_is_away_is_said_in_one_line(away, capsys):
    assert doctor([away.name]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: the tracking store must be usable")
    assert len(said.splitlines()) == 1
    assert "hunter2" not in said


def test_a_sweep_whose_store_is_away_at_the_end_still_closes(away):
    text = sweep_command._closing(away, away, Outcome(finished=True, waiting=0, refused=0))
    assert "champion: not known: the tracking store must be usable" in text
    assert f"browse:   python -m orchestrator.ui {away.name}" in text
    assert "hunter2" not in text


def test_what_waits_is_told_without_the_password(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan(tracking_uri=f"{fresh_sqlite(tmp_path, tmp_path_factory)}?password=hunter2")
    fill(plan, [0.5])
    log = open_log(plan.folder)
    (waiting,) = [each for each in examine(plan, log) if "have not been sent" in each]
    log.close()
    assert "hunter2" not in waiting


def test_a_comparison_says_what_waits_and_what_was_refused(away, monkeypatch, capsys):
    plan = comparison_plan(tracking_uri=away.tracking_uri)
    plan.save()
    fill_comparison(plan, {"a": [0.1, 0.2, 0.3], "b": [0.4, 0.5, 0.6]})
    monkeypatch.setattr(evidence, "of_plan", lambda plan: None)
    monkeypatch.setattr(compare, "carry_out", lambda *_: Outcome(True, waiting=3, refused=2))
    assert compare.main(["--resume", plan.name]) == 0
    said = capsys.readouterr().out
    assert "waiting:  3 events could not be sent to http://me:***@" in said
    assert f"python -m orchestrator.doctor {plan.name} --fix" in said
    assert "refused:  MLflow refused 2 events" in said


def test_the_ui_names_a_server_without_its_password(capsys):
    assert ui.main(["--tracking-uri", "http://me:hunter2@127.0.0.1:1"]) == 0
    assert "open http://me:***@127.0.0.1:1" in capsys.readouterr().out


def test_the_ui_says_that_the_store_of_a_sweep_is_away(away, capsys):
    assert ui.main([away.name]) == 2
    assert capsys.readouterr().err.startswith("error: the tracking store must be usable")
