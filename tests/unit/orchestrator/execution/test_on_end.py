"""The command of --on-end: what it is told, and that its failure changes nothing."""

from dataclasses import replace

import pytest

from orchestrator.execution import on_end
from orchestrator.execution.on_end import notify
from orchestrator.planning.arguments import search_options
from orchestrator.planning.planner import plan_from
from orchestrator.tracking.event_log import open_log
from orchestrator.tracking.events import SweepEnded, SweepStarted
from tests.support.sweep_logs import COMPLETE, make_plan, params_of, record


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan(trials=2)
    log = open_log(plan.folder)
    log.append(SweepStarted("s"))
    log.close()
    record(plan, 0, [0.5, 0.25], COMPLETE, params_of(1e-3))
    return plan


@pytest.mark.parametrize(
    ("status", "state"), [("FINISHED", "finished"), ("KILLED", "stopped"), ("FAILED", "failed")]
)
def test_the_command_is_told_how_the_sweep_ended_while_its_driver_has_the_log(plan, status, state):
    log = open_log(plan.folder)
    log.append(SweepEnded(status))
    words = ("SWEEP", "STATE", "METRIC", "BEST", "BEST_TRIAL", "TRIALS", "FOLDER")
    text = " ".join(f"$TARDIS_{word}" for word in words)
    notify(replace(plan, on_end=f"echo {text} > told.txt"))
    log.close()
    variables = open("told.txt").read().split()  # noqa: SIM115
    assert variables == ["s", state, "bce", "0.25", "0", "1/2", str(plan.folder.absolute())]


@pytest.mark.parametrize("command", ["exit 3", "no-such-command"])
def test_a_failure_is_one_line(plan, capfd, command):
    notify(replace(plan, on_end=command))
    said = capfd.readouterr().out
    assert said.startswith("on-end:   the command failed with exit code")
    assert said.count("\n") == 1


def test_a_command_that_does_not_end_is_left(plan, capsys, monkeypatch):
    monkeypatch.setattr(on_end, "TIMEOUT_SECONDS", 0.1)
    notify(replace(plan, on_end="exec sleep 60"))
    assert "timed out" in capsys.readouterr().out


def test_its_output_is_not_that_of_the_sweep(plan, capfd):
    notify(replace(plan, on_end="echo hello"))
    assert capfd.readouterr() == ("", "hello\n")


def test_the_plan_keeps_the_command_and_does_not_show_it(plan):
    options = search_options(["copy", "--smoke", "--name", "n", "--on-end", "curl secret"])
    planned = plan_from(options)
    assert planned.on_end == "curl secret"
    assert "secret" not in repr(planned.without_secrets())
