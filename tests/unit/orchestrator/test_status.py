"""The sweeps of a folder: all of them in a table, one in detail, or as JSON."""

import json
import time

import pytest

from orchestrator.execution.status import status_of
from orchestrator.planning.plan import load_plan
from orchestrator.status import main
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import SweepEnded, SweepStarted, TrialPaused, TrialStarted
from tests.support.sweep_logs import COMPLETE, FAILED, PRUNED, make_plan, params_of, record


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)


def sweep(name, *endings, ended=None):
    """A sweep with a trial for each of these endings, whose last values are 0.5, 0.4, ..."""
    plan = make_plan(name, trials=4)
    plan.save()
    log = EventLog(plan.folder)
    log.append(SweepStarted(name))
    log.close()
    for number, ending in enumerate(endings):
        record(plan, number, [0.5 - 0.1 * number], ending, params_of(1e-3))
    log = EventLog(plan.folder)
    log.append(*([SweepEnded(ended)] if ended else []))
    return log


def asked(capsys, *arguments):
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_folder_without_sweeps_says_how_to_start_one(capsys):
    assert main([]) == 0
    assert "no sweeps here" in capsys.readouterr().out
    assert main(["nobody"]) == 2


@pytest.mark.parametrize(
    ("ended", "state"),
    [("FINISHED", "finished"), ("KILLED", "stopped"), ("FAILED", "failed"), (None, "killed")],
)
def test_the_state_of_a_sweep_is_that_of_its_last_end(capsys, ended, state):
    sweep("s", COMPLETE, ended=ended).close()
    assert asked(capsys, "s")["state"] == state


def test_a_sweep_runs_while_a_driver_has_its_log(capsys):
    log = sweep("s", COMPLETE)
    log.append(TrialStarted(1))
    values = asked(capsys, "s")
    log.close()
    assert values["state"] == "running"
    assert (values["trials"]["running"], values["trials"]["ended"]) == (1, 1)
    again = asked(capsys, "s")
    assert (again["state"], again["trials"]["stopped"]) == ("killed", 1)


def test_a_complete_trial_is_better_than_a_pruned_one(capsys):
    sweep("s", COMPLETE, COMPLETE, PRUNED, FAILED, ended="FINISHED").close()
    values = asked(capsys, "s")
    assert (values["best_trial"], values["best"]) == (1, pytest.approx(0.4))
    assert values["trials"] == {
        "planned": 4,
        "ended": 4,
        "running": 0,
        "complete": 2,
        "pruned": 1,
        "failed": 1,
        "stopped": 0,
        "paused": 0,
    }


def test_a_trial_that_waits_for_its_promotion_is_paused_and_not_stopped(capsys):
    log = sweep("s", COMPLETE)
    log.append(TrialStarted(1), TrialPaused(1), TrialStarted(2))
    trials = asked(capsys, "s")["trials"]
    log.close()
    assert (trials["paused"], trials["running"], trials["stopped"]) == (1, 1, 0)


def test_a_table_has_the_latest_sweep_first(capsys):
    sweep("early", COMPLETE, ended="FINISHED").close()
    time.sleep(0.002)  # events have milliseconds
    sweep("late", COMPLETE, ended="KILLED").close()
    assert main([]) == 0
    heads, first, second = capsys.readouterr().out.splitlines()
    assert heads.split()[:3] == ["sweep", "task", "scale"]
    assert first.split()[:7] == ["late", "copy", "smoke", "stopped", "1/4", "bce", "0.5000"]
    assert second.split()[0] == "early"


def test_a_sweep_whose_plan_is_damaged_does_not_hide_the_others(capsys):
    sweep("good", COMPLETE, ended="FINISHED").close()
    sweep("bad", COMPLETE, ended="FINISHED").close()
    (load_plan("bad").folder / "sweep.json").write_text("{")
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["sweep", "good"]
    assert err.startswith("error: sweeps/bad/sweep.json is damaged")
    assert main(["--json"]) == 2
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == ["good"]


def test_nothing_is_cut_off_where_there_is_no_terminal(capsys):
    name = "a-name-that-is-as-long-as-those-that-reproduce-gives-to-its-comparisons"
    sweep(name, COMPLETE, ended="FINISHED").close()
    assert main([]) == 0
    _, row = capsys.readouterr().out.splitlines()
    assert row.split()[:7] == [name, "copy", "smoke", "finished", "1/4", "bce", "0.5000"]


def test_on_a_narrow_terminal_only_the_name_is_broken(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    name = "a-name-that-is-as-long-as-those-that-reproduce-gives-to-its-comparisons"
    sweep(name, COMPLETE, ended="FINISHED").close()
    assert main([]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert max(map(len, rows)) <= 80
    assert rows[0].split()[1:7] == ["copy", "smoke", "finished", "1/4", "bce", "0.5000"]
    assert "".join(row.split()[0] for row in rows) == name


def test_the_results_before_a_sweep_was_resumed_say_nothing_about_its_pace(capsys):
    sweep("s", COMPLETE, ended="KILLED").close()
    plan = load_plan("s")
    log = EventLog(plan.folder)
    log.append(SweepStarted("s"), TrialStarted(1))
    status = status_of(plan)
    log.close()
    assert status.progress.new_results == 0
    assert status.progress.time_left() is None
    assert status_of(load_plan("s")).progress.results_before == 1


def test_one_sweep_is_shown_in_detail_with_how_to_resume_it(capsys):
    sweep("s", COMPLETE, FAILED, ended="KILLED").close()
    assert main(["s"]) == 0
    out = capsys.readouterr().out
    assert "best bce 0.5000 (trial 0)" in out
    assert "trial 1 failed: diverged" in out
    assert "python -m orchestrator.sweep --resume s" in out


@pytest.mark.parametrize(
    ("endings", "resumable"), [((COMPLETE, FAILED), True), ((FAILED,) * 4, False)]
)
def test_a_sweep_that_an_error_ended_before_its_trials_can_be_resumed(capsys, endings, resumable):
    sweep("s", *endings, ended="FAILED").close()
    assert main(["s"]) == 0
    assert ("--resume s" in capsys.readouterr().out) is resumable
