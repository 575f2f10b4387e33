"""The sweeps of a folder: all of them in a table, one in detail, or as JSON."""

import json

import pytest

from orchestrator.status import main
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import SweepEnded, SweepStarted, TrialStarted
from tests.support.sweep_logs import COMPLETE, FAILED, PRUNED, make_plan, params_of, record


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


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
    }


def test_a_table_has_the_latest_sweep_first(capsys):
    sweep("early", COMPLETE, ended="FINISHED").close()
    sweep("late", COMPLETE, ended="KILLED").close()
    assert main([]) == 0
    heads, first, second = capsys.readouterr().out.splitlines()
    assert heads.split()[:3] == ["sweep", "task", "scale"]
    assert first.split()[:7] == ["late", "copy", "smoke", "stopped", "1/4", "bce", "0.5000"]
    assert second.split()[0] == "early"


def test_one_sweep_is_shown_in_detail_with_how_to_resume_it(capsys):
    sweep("s", COMPLETE, FAILED, ended="KILLED").close()
    assert main(["s"]) == 0
    out = capsys.readouterr().out
    assert "best bce 0.5000 (trial 0)" in out
    assert "trial 1 failed: diverged" in out
    assert "python -m orchestrator.sweep --resume s" in out
