"""What commands say where the tracking store is away, or has not got everything."""

from types import SimpleNamespace

import pytest

from orchestrator import compare_command, sweep_command, ui
from orchestrator.comparison import runs as comparison_runs
from orchestrator.doctor import examine
from orchestrator.doctor import main as doctor
from orchestrator.execution.driver import Outcome
from orchestrator.results.records import Records
from orchestrator.tracking.event_log import open_log
from tests.support.mlflow_stores import fresh_sqlite
from tests.support.servers import free_port
from tests.support.sweep_logs import comparison_plan, fill, fill_comparison, make_plan


@pytest.fixture
def away(tmp_path, monkeypatch):
    """A sweep whose tracking server is not there."""
    monkeypatch.chdir(tmp_path)
    plan = make_plan(tracking_uri=f"http://me:hunter2@127.0.0.1:{free_port()}")
    plan.save()
    fill(plan, [0.5])
    return plan


def test_a_store_that_is_away_is_reported_in_one_line(away, capsys):
    assert doctor([away.name]) == 2
    text = capsys.readouterr().err
    assert text.startswith("error: the tracking store must be usable")
    assert len(text.splitlines()) == 1
    assert "hunter2" not in text


def test_a_sweep_whose_store_is_away_at_the_end_still_closes(away):
    text = sweep_command._closing(
        away, Records.load(away), Outcome(finished=True, waiting=0, refused=0)
    )
    assert "champion: unknown: the tracking store must be usable" in text
    assert f"browse:   python -m orchestrator.ui {away.name}" in text
    assert "hunter2" not in text


def test_a_champion_that_no_sweep_has_registered_is_named_all_the_same(away, monkeypatch):
    current = SimpleNamespace(version="7", tags={})
    monkeypatch.setattr(sweep_command, "reach_store", lambda *_: (None, "1"))
    monkeypatch.setattr(sweep_command.champion, "current_champion", lambda *_: current)
    text = sweep_command._champion(away)
    assert text == "tardis-copy version 7, which was not registered by a sweep"


def test_what_waits_of_the_search_is_reported_before_its_confirmation(away, monkeypatch, capsys):
    plan = make_plan("again", confirm_seeds=2, tracking_uri=away.tracking_uri)
    plan.save()
    fill(plan, [0.5])
    outcomes = iter([Outcome(True, waiting=3, refused=0), Outcome(False, waiting=0, refused=0)])
    monkeypatch.setattr(sweep_command.sweep_session, "run", lambda *_: next(outcomes))
    assert sweep_command.main(["--resume", "again"]) == 130
    output = capsys.readouterr().out
    assert "python -m orchestrator.doctor again --fix" in output
    assert "python -m orchestrator.sweep --resume again" in output  # the confirmation was stopped


def test_a_sweep_that_was_killed_before_its_study_was_made_is_examined(
    tmp_path, tmp_path_factory, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    plan = make_plan(tracking_uri=fresh_sqlite(tmp_path, tmp_path_factory))
    plan.save()
    assert doctor([plan.name]) == 0
    open_log(plan.folder).close()


def test_what_waits_is_reported_without_the_password(tmp_path, tmp_path_factory, monkeypatch):
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
    monkeypatch.setattr(comparison_runs, "of_records", lambda records: None)
    monkeypatch.setattr(
        compare_command.sweep_session, "run", lambda *_: Outcome(True, waiting=3, refused=2)
    )
    assert compare_command.main(["--resume", plan.name]) == 0
    text = capsys.readouterr().out
    assert "waiting:  3 events could not be sent to http://me:***@" in text
    assert f"python -m orchestrator.doctor {plan.name} --fix" in text
    assert "refused:  MLflow refused 2 events" in text


def test_the_ui_names_a_server_that_is_away_without_its_password(capsys):
    assert ui.main(["--tracking-uri", "http://me:hunter2@127.0.0.1:1"]) == 2
    message = capsys.readouterr().err
    assert "the tracking store http://me:***@127.0.0.1:1 cannot be used" in message
    assert "hunter2" not in message


def test_the_ui_says_that_the_store_of_a_sweep_is_away(away, capsys):
    assert ui.main([away.name]) == 2
    assert capsys.readouterr().err.startswith("error: the tracking store must be usable")
