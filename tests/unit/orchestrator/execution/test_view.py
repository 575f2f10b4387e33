"""What a person sees while a sweep runs, on a terminal of any size and in a log."""

import io
import pickle
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from orchestrator.execution import drawing, view
from orchestrator.execution.drawing import draw
from orchestrator.execution.progress import Row, Snapshot
from orchestrator.execution.result import FAILED, FINISHED, OBJECTIVE
from orchestrator.execution.view import View
from orchestrator.planning.plan import SearchPlan
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Metrics, TrialEnded, TrialStarted
from orchestrator.tracking.states import State

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
    """A terminal that interprets the controls which the view uses; long lines wrap."""

    CONTROL = re.compile(r"\x1b\[\??\d*(?:;\d+)*[A-Za-z]|[\r\n]|[^\x1b\r\n]+")

    def __init__(self, columns):
        super().__init__()
        self.columns, self.screen, self.row, self.column = columns, [""], 0, 0
        self.cursor_visible = True

    def isatty(self):
        return True

    def write(self, text):
        for word in self.CONTROL.findall(text):
            if word == "\n":
                self._go_to(self.row + 1)
            elif word == "\r":
                self.column = 0
            elif not word.startswith("\x1b"):
                self._type(word)
            elif word.endswith("A"):
                self._go_to(self.row - int(word[2:-1] or 1))
            elif word == "\x1b[2K":
                self.screen[self.row] = ""
            elif word in ("\x1b[?25l", "\x1b[?25h"):
                self.cursor_visible = word.endswith("h")
            else:
                assert word.endswith("m"), f"an unknown control: {word!r}"  # colours
        return len(text)

    def _type(self, word):
        for character in word:
            if self.column == self.columns:
                self._go_to(self.row + 1)
            line = self.screen[self.row].ljust(self.column)
            self.screen[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    def _go_to(self, row):
        assert row >= 0, "moved above the first line"
        self.row, self.column = row, 0
        self.screen += [""] * (row + 1 - len(self.screen))

    def resize(self, columns):
        """Lines that have become too long wrap, as they do in most terminals."""
        starts = range(0, 1000, columns)
        wrapped = [
            [line[at : at + columns] for at in starts[: -(-len(line) // columns)] or [0]]
            for line in self.screen
        ]
        self.row = sum(map(len, wrapped[: self.row + 1])) - 1
        self.columns, self.screen = columns, [part for parts in wrapped for part in parts]

    def lines(self):
        return [line.rstrip() for line in self.screen if line.strip()]


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """A view that is drawn at every step, in a folder of no sweep."""
    monkeypatch.setattr(view, "REFRESH_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    with View(PLAN) as shown:
        yield shown


def use_terminal(monkeypatch, columns, lines):
    terminal = Terminal(columns)
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(lines))
    return terminal


@pytest.mark.parametrize("columns", [30, 60, 80, 200])
def test_drawings_replace_each_other_at_any_width(shown, monkeypatch, columns):
    terminal = use_terminal(monkeypatch, columns, 24)
    print("before")
    shown.setup()
    assert "no result yet" in "\n".join(terminal.screen)
    assert not terminal.cursor_visible
    for number in range(9):
        each = trial(number)
        shown.on_trial_start(0, [], each)
        for step in range(1, 5):
            report(shown, each, step, 3.0 - 0.1 * number - 0.01 * step, **{FINISHED: step == 4})
        shown.on_trial_complete(0, [], each)
    shown.on_experiment_end([])
    lines = terminal.lines()
    assert lines[0] == "before"
    assert re.search(r" 22% in \d s(, \d.* results/min)?$", lines[1])
    assert lines[2].startswith("9/40 ended, 0 running, 0 pruned"[: columns - 1])
    assert lines[3].startswith("best bpc 2.1600 (trial 8)")
    assert lines[4].split()[:2] == ["trial", "bpc"]
    assert lines[5].split()[:2] == ["8", "2.1600"]
    assert len(lines) == 5 + drawing.MOST_LEADERS
    assert max(map(len, lines)) <= columns
    shown.__exit__(None, None, None)
    assert len(terminal.lines()) == 4  # the command prints the table that stays
    assert terminal.cursor_visible


def test_a_window_that_shrinks_keeps_what_was_printed_before_and_no_old_drawing(shown, monkeypatch):
    terminal = use_terminal(monkeypatch, 100, 24)
    print("before")
    shown.rows = {number: Row(State.COMPLETE, float(number), 4, {}) for number in range(9)}
    shown.on_step_end(0, [])
    terminal.resize(40)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "8")
    shown.on_step_end(0, [])
    lines = terminal.lines()
    assert lines[0] == "before"
    assert max(map(len, lines)) <= 40
    assert len(lines) <= 8
    assert sum("best bpc" in line for line in lines) == 1
    assert sum("% in" in line for line in lines) == 1


@pytest.mark.parametrize("height", [5, 8, 12, 24])
def test_the_view_fits_a_low_terminal(height):
    rows = {number: Row(State.COMPLETE, float(number), 4, settings(number)) for number in range(9)}
    rows |= {number: Row(State.RUNNING, None, 2) for number in range(9, 20)}
    rows |= {number: Row(State.FAILED, reason="Diverged: loss is nan") for number in range(20, 30)}
    text = drawn(Snapshot(PLAN, rows, 60.0), 80, height)
    assert len(text.splitlines()) < height
    assert "best bpc 0.0000 (trial 0)" in text


def drawn(snapshot, width, height):
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    console.print(draw(snapshot, width, height))
    return console.file.getvalue()


def test_running_trials_have_their_progress_and_failures_their_reasons():
    rows = {
        0: Row(State.RUNNING, 2.5, 3),
        1: Row(State.RUNNING),
        2: Row(State.FAILED, reason="Diverged: loss is nan"),
    }
    lines = drawn(Snapshot(PLAN, rows, 60.0), 80, 24).splitlines()
    assert not lines[3].strip()  # an empty line between the parts, where there is room
    first, second = lines[4], lines[5]
    assert re.fullmatch(r"trial 0 +\S+ +3/4 +bpc 2\.5000 *", first)
    assert re.fullmatch(r"trial 1 +0/4 *", second)  # without colour an empty bar is blank
    assert lines[-1].strip() == "trial 2 failed: Diverged: loss is nan"


def test_a_text_with_brackets_is_shown_as_it_is():
    rows = {0: Row(State.FAILED, reason="shape [3, 4] is [bold]wrong[/bold]")}
    assert "shape [3, 4] is [bold]wrong[/bold]" in drawn(Snapshot(PLAN, rows), 80, 24)


def test_the_view_can_be_pickled_while_it_is_drawn(shown, monkeypatch):
    use_terminal(monkeypatch, 80, 24)
    shown.setup()
    assert pickle.loads(pickle.dumps(shown)).plan == PLAN


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


def test_elsewhere_a_long_silence_is_broken(shown, capsys, monkeypatch):
    shown.setup()
    shown.on_step_end(0, [])
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(view, "SILENCE_SECONDS", 0.0)
    shown.on_step_end(0, [])
    assert capsys.readouterr().out == "0/40 ended, 0 running, 0 pruned, 0 failed\n"


def test_a_resumed_sweep_begins_with_what_has_ended(shown):
    log = EventLog(PLAN.folder)
    log.append(*(TrialStarted(number, settings(number)) for number in range(3)))
    log.append(Metrics(0, 10, {"valid_bpc": 2.25}), Metrics(0, 20, {"valid_bpc": 2.5}))
    log.append(Metrics(2, 10, {"valid_bpc": float("nan")}))
    log.append(TrialEnded(0, "FINISHED"), TrialEnded(1, "FAILED", {"error": "oh"}))
    log.close()
    shown.setup()
    assert "best bpc 2.2500" in shown.snapshot().best()
    texts = [{key: str(value) for key, value in settings(n).items()} for n in range(3)]
    assert shown.rows == {
        0: Row(State.COMPLETE, 2.25, 2, texts[0]),
        1: Row(State.FAILED, None, 0, texts[1], "oh"),
        2: Row(State.STOPPED, None, 1, texts[2]),
    }
    assert shown.snapshot().summary() == "2/40 ended, 0 running, 0 pruned, 1 failed"


def test_results_that_a_resumed_trial_repeats_are_not_the_work_of_this_start(shown):
    log = EventLog(PLAN.folder)
    log.append(TrialStarted(0, settings(0)))
    log.append(Metrics(0, 10, {"valid_bpc": 2.5}), Metrics(0, 20, {"valid_bpc": 2.25}))
    log.close()
    shown.setup()
    again = trial(0)
    shown.on_trial_start(0, [], again)
    assert shown.snapshot().summary() == "0/40 ended, 1 running, 0 pruned, 0 failed"
    for step, value in ((1, 2.5), (2, 2.25)):  # repeated
        report(shown, again, step, value)
    assert shown.snapshot().time_left() is None
    assert "best bpc 2.2500 (trial 0)" in shown.snapshot().best()
    report(shown, again, 3, 2.0)
    now = shown.snapshot()
    assert now.new_results == 1
    assert now.time_left() == pytest.approx(now.seconds * (1 + 39 * 4))
