"""What a person sees while a sweep runs, on a terminal of any width and in a log."""

import io
import re
from types import SimpleNamespace

import pytest

from orchestrator.execution import progress as view
from orchestrator.execution.progress import Row, View, duration, leaders, progress
from orchestrator.execution.search import FAILED, FINISHED, OBJECTIVE
from orchestrator.planning.plan import SearchPlan
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Metrics, TrialEnded, TrialStarted

PLAN = SearchPlan("s", "ptb", "smoke", trials=40, metric="bpc", better="lower", reports=4)


def settings(number):
    return {
        "estimator": ("gumbel", "reinforce")[number % 2],
        "memory.cells": 8 * (number + 1),
        "training.learning_rate": 0.001 * (number + 1),
        "model.recurrent_dropout": 0.05 * number,
        "model.hidden": 48,
    }


def trial(number):
    return SimpleNamespace(
        config={"number": number, "settings": settings(number)}, status="RUNNING", last_result=None
    )


def report(shown, each, step, value, **more):
    each.last_result = {OBJECTIVE: value, "training_iteration": step, **more}
    shown.on_trial_result(step, [], each, each.last_result)
    shown.on_step_end(step, [])


class Terminal(io.StringIO):
    """A terminal of so many columns that knows what the view uses: newline, up, clear."""

    def __init__(self, columns):
        super().__init__()
        self.columns, self.screen, self.row = columns, [""], 0

    def isatty(self):
        return True

    def write(self, text):
        for word in re.findall(r"\x1b\[\d*[A-Z]|\n|[^\n\x1b]+", text):
            if word == "\n":
                self._go_to(self.row + 1)
            elif word.endswith("F") and word[0] == "\x1b":
                self.row -= int(word[2:-1])
            elif word == "\x1b[J":
                del self.screen[self.row + 1 :]
                self.screen[self.row] = ""
            else:
                for start in range(0, len(word), self.columns):  # a long line wraps
                    if start:
                        self._go_to(self.row + 1)
                    self.screen[self.row] = word[start : start + self.columns]
        return len(text)

    def _go_to(self, row):
        self.row = row
        self.screen += [""] * (row + 1 - len(self.screen))


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """A view that is drawn at every step, in a folder of no sweep."""
    monkeypatch.setattr(view, "REFRESH_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    return View(PLAN)


@pytest.mark.parametrize("columns", [30, 60, 80, 200])
def test_drawings_replace_each_other_at_any_width(shown, monkeypatch, columns):
    terminal = Terminal(columns)
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", "24")
    print("before")
    shown.setup()
    assert "no result yet" in "\n".join(terminal.screen)
    for number in range(9):
        each = trial(number)
        shown.on_trial_start(0, [], each)
        for step in range(1, 5):
            report(shown, each, step, 3.0 - 0.1 * number - 0.01 * step, **{FINISHED: step == 4})
        shown.on_trial_complete(0, [], each)
    shown.on_experiment_end([])
    lines = [line for line in terminal.screen if line]
    assert lines[0] == "before"
    assert lines[1].startswith("9/40 ended, 0 running, 0 pruned"[: columns - 1])
    assert lines[2].startswith("best bpc 2.1600 (trial 8)")
    assert len(lines) == 3 + 1 + view.LEADERS
    assert max(map(len, lines)) < columns
    assert lines[4].split()[:2] == ["8", "2.1600"]


def test_a_low_terminal_gets_a_short_table(shown, monkeypatch):
    terminal = Terminal(80)
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "8")
    shown.rows = {number: Row("complete", float(number), 4, {}) for number in range(9)}
    shown.on_step_end(0, [])
    assert len(terminal.screen) <= 8


def test_elsewhere_every_end_is_a_line_with_its_reason(shown, capsys):
    shown.setup()
    good, bad = trial(0), trial(1)
    for each in (good, bad):
        shown.on_trial_start(0, [], each)
    report(shown, good, 1, 2.5)
    report(shown, bad, 1, float("nan"), **{FAILED: "Diverged: loss is nan"})
    shown.on_trial_complete(0, [], good)
    shown.on_trial_complete(0, [], bad)
    out = capsys.readouterr().out
    assert re.search(r"trial 0 +pruned +bpc 2\.5000\n", out)
    assert re.search(r"trial 1 +failed +Diverged: loss is nan\n", out)
    assert "2/40 ended, 0 running, 1 pruned, 1 failed" in out
    assert "\x1b" not in out


def test_the_table_has_what_differs_and_fits():
    rows = {number: Row("complete", 2.0 + number, 4, settings(number)) for number in range(4)}
    wide = leaders(PLAN, rows, 200, 3)
    assert len(wide) == 1 + 3
    assert "learning_rate" in wide[0]
    assert "hidden" not in wide[0]
    narrow = leaders(PLAN, rows, 40, 3)
    assert max(map(len, narrow)) <= 40
    assert narrow[1].split()[0] == "0"


def test_a_failed_trial_does_not_lead_and_higher_may_be_better():
    higher = SearchPlan("s", "snli", "smoke", trials=3, metric="accuracy", better="higher")
    rows = {0: Row("complete", 0.5), 1: Row("failed", 0.9), 2: Row("running", 0.7)}
    assert view.ranked(higher, rows) == [2, 0]


def test_a_resumed_sweep_begins_with_what_has_ended(shown, monkeypatch, capsys):
    log = EventLog(PLAN.folder)
    log.append(*(TrialStarted(number, settings(number)) for number in range(3)))
    log.append(Metrics(0, 10, {"valid_bpc": 2.5}), Metrics(0, 20, {"valid_bpc": 2.25}))
    log.append(TrialEnded(0, "FINISHED"), TrialEnded(1, "FAILED", {"error": "oh"}))
    log.close()
    shown.setup()
    assert shown.rows[0] == Row("complete", 2.25, 2, {k: str(v) for k, v in settings(0).items()})
    assert progress(PLAN, shown.rows, 1.0, 2) == "2/40 ended, 0 running, 0 pruned, 1 failed"


def test_time_left_counts_what_running_trials_have_done():
    rows = {number: Row("complete", 1.0, 4) for number in range(9)}
    rows[9] = Row("running", 1.0, 2)  # half of its four reports
    assert progress(PLAN, rows, seconds=95.0).endswith("about 5 min left")  # 30.5 more at 10 s
    resumed = progress(PLAN, rows, seconds=10.0, before=8)  # 1.5 in these ten seconds
    assert resumed.endswith("about 3 min left")
    assert "left" not in progress(PLAN, {0: Row()}, seconds=5.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (89, "89 s"), (600, "10 min"), (7300, "2 h 2 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text
