"""The live view of a recorded sweep as an SVG."""

import pytest

from benchmarks.tools.terminal import main, moment
from orchestrator.planning.plan import SearchPlan
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Metrics, SweepStarted, TrialEnded, TrialStarted
from orchestrator.tracking.states import State

EVENTS = [
    SweepStarted("s", {"command": "python -m orchestrator.sweep ptb --trials 2 --name s"}, at=1000),
    TrialStarted(0, {"memory.cells": "8"}, at=2000),
    Metrics(0, 10, {"valid_bpc": 2.5}, at=4000),
    TrialStarted(1, {"memory.cells": "16"}, at=5000),
    TrialEnded(0, "FINISHED", at=6000),
    Metrics(1, 10, {"valid_bpc": 2.25}, at=9000),
]


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = SearchPlan("s", "ptb", "smoke", trials=2, metric="bpc", better="lower", reports=4)
    plan.folder.mkdir(parents=True)
    plan.save()
    log = EventLog(plan.folder)
    log.append(*EVENTS)
    log.close()
    return plan


def test_the_moment_is_the_first_with_that_share(plan):
    now = moment(plan, EVENTS, 0.5)
    assert (now.done, now.seconds) == (1.0, 5.0)
    assert [row.state for row in now.rows.values()] == [State.COMPLETE, State.RUNNING]


def test_the_figure_shows_the_command_and_the_trials(plan, tmp_path):
    assert main(["s", "--at", "0.6", "--out", "view.svg"]) == 0
    text = (tmp_path / "view.svg").read_text().replace("&#160;", " ")
    assert "python -m orchestrator.sweep ptb<" in text
    assert "best bpc 2.2500 (trial 1)" in text
    assert "1/2 ended, 1 running" in text
    assert "url(http" not in text  # nothing is loaded from elsewhere


def test_a_share_that_was_not_reached_is_refused(plan, tmp_path, capsys):
    assert main(["s", "--at", "1", "--out", "view.svg"]) == 2
    assert "s must have reached 100%" in capsys.readouterr().err
    assert not (tmp_path / "view.svg").exists()
