"""The event log: nothing twice, nothing lost, whatever cuts it off."""

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tracking.event_log import EventLog, open_log, scan, set_log_damage_aside
from orchestrator.tracking.events import (
    Artifact,
    Event,
    Metrics,
    SweepEnded,
    SweepMetrics,
    SweepStarted,
    SweepTags,
    TrialEnded,
    TrialPaused,
    TrialStarted,
    decode,
    encode,
)
from tardis_core.errors import UserError

EVENTS = [
    SweepStarted("ptb ä", {"git.commit": "abc"}, {"trials": 2}),
    TrialStarted(0, {"memory.cells": 16}),
    Metrics(0, 10, {"bpc": 1.5, "loss_nats": 1.0}),
    TrialStarted(1),
    Metrics(1, 10, {"bpc": math.inf}),
    TrialPaused(1),
    TrialEnded(1, "KILLED", {"pruned": "true"}),
    Metrics(0, 20, {"bpc": 1.25}),
    Artifact(None, "/tmp/leaderboard.csv", "tables"),
    TrialEnded(0, "FINISHED"),
    SweepTags({"best": "0"}),
    SweepEnded("FINISHED"),
]


@pytest.fixture
def log(tmp_path: Path):
    log = EventLog(tmp_path)
    yield log
    log.close()


def recorded(log: EventLog) -> list[Event]:
    return [event for event, _ in log.read(0)]


def test_events_come_back_as_they_went_in(log: EventLog) -> None:
    log.append(*EVENTS)
    read = recorded(log)
    assert [type(event) for event in read] == [type(event) for event in EVENTS]
    assert read[1] == TrialStarted(0, {"memory.cells": "16"}, at=read[1].at)
    assert read[4] == Metrics(1, 10, {"bpc": math.inf}, at=read[4].at)
    assert all(event.at > 1.7e12 for event in read)


def test_every_line_is_json_even_of_nan(log: EventLog) -> None:
    log.append(Metrics(0, 1, {"a": math.nan, "b": -math.inf, "c": np.float32(0.5)}))
    line = log.path.read_text()
    assert json.loads(line, parse_constant=pytest.fail)["values"] == {
        "a": "nan",
        "b": "-inf",
        "c": 0.5,
    }
    (event,) = recorded(log)
    assert isinstance(event, Metrics)
    assert math.isnan(event.values["a"])


def test_a_step_is_recorded_once(log: EventLog, tmp_path: Path) -> None:
    log.append(
        Metrics(0, 1, {"bpc": 2.0}), Metrics(0, 2, {"bpc": 1.5}), Metrics(1, 1, {"bpc": 3.0})
    )
    log.append(Metrics(0, 1, {"bpc": 2.1}))
    log.close()
    again = EventLog(tmp_path)
    again.append(Metrics(0, 2, {"bpc": 1.6}), Metrics(0, 2, {"bpc": 1.6, "test_bpc": 1.7}))
    values = [(e.number, e.step, e.values) for e in recorded(again) if isinstance(e, Metrics)]
    assert values == [
        (0, 1, {"bpc": 2.0}),
        (0, 2, {"bpc": 1.5}),
        (1, 1, {"bpc": 3.0}),
        (0, 2, {"test_bpc": 1.7}),  # a number that was not there yet
    ]
    again.close()


def test_starts_and_ends_alternate(log: EventLog) -> None:
    start, end, failed = TrialStarted(3), TrialEnded(3, "FINISHED"), TrialEnded(3, "FAILED")
    log.append(start, start, failed, failed, end, start, start, end, failed)
    statuses = [getattr(event, "status", "started") for event in recorded(log)]
    assert statuses == ["started", "FAILED", "started", "FINISHED"]


def test_a_pause_lasts_until_the_trial_starts_again_or_ends(log: EventLog) -> None:
    start, pause, end = TrialStarted(3), TrialPaused(3), TrialEnded(3, "FINISHED")
    log.append(pause, start, pause, pause)
    assert log.open_trials() == [3]
    log.append(start, start, pause, end, pause)
    kinds = [type(event).__name__.removeprefix("Trial") for event in recorded(log)]
    assert kinds == ["Started", "Paused", "Started", "Paused", "Ended"]


def test_metrics_after_an_end_open_the_trial_again(log: EventLog) -> None:
    log.append(Metrics(0, 1, {"bpc": 2.0}), TrialEnded(0, "KILLED"))
    log.append(Metrics(0, 1, {"bpc": 2.0}))
    assert log.open_trials() == []  # a repeated step is no news
    log.append(Metrics(0, 2, {"bpc": 2.0}))
    assert log.open_trials() == [0]


def test_a_sweep_ends_its_open_trials(log: EventLog) -> None:
    log.append(SweepStarted("s"), TrialStarted(1), TrialStarted(0), TrialEnded(1, "FINISHED"))
    assert log.open_trials() == [0]
    log.append(SweepEnded("KILLED"), SweepEnded("KILLED"))
    assert log.open_trials() == []
    *_, trial, sweep = recorded(log)
    assert isinstance(trial, TrialEnded)
    assert (trial.number, trial.status, trial.tags) == (0, "KILLED", {"interrupted": "true"})
    assert isinstance(sweep, SweepEnded)
    assert len(recorded(log)) == 6


def test_tags_that_say_nothing_new_are_left_out(log: EventLog) -> None:
    log.append(
        SweepStarted("s", {"a": "1"}), SweepTags({"a": "1"}), SweepTags({"a": "2", "b": "1"})
    )
    log.append(SweepTags({"a": "2"}))
    assert [e.tags for e in recorded(log) if isinstance(e, SweepTags)] == [{"a": "2", "b": "1"}]


def test_the_cursor_outlives_the_process(log: EventLog, tmp_path: Path) -> None:
    log.append(*EVENTS)
    ends = [end for _, end in log.read(0)]
    log.mark_sent(ends[3])
    log.close()
    again = EventLog(tmp_path)
    assert (again.sent, again.waiting) == (ends[3], len(EVENTS) - 4)
    assert [end for _, end in again.read(again.sent)] == ends[4:]
    again.close()


@pytest.mark.parametrize("cursor", ["", "x", "-5", "999999999"])
def test_a_broken_cursor_stays_within_the_log(tmp_path: Path, cursor: str) -> None:
    log = EventLog(tmp_path)
    log.append(*EVENTS)
    log.close()
    (tmp_path / "tracking.sent").write_text(cursor)
    again = EventLog(tmp_path)
    assert again.sent == (again.end if cursor == "999999999" else 0)
    again.close()


def test_one_process_at_a_time(log: EventLog, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is running"):
        EventLog(tmp_path)
    log.close()
    shared = open_log(tmp_path)
    assert open_log(tmp_path / ".." / tmp_path.name) is shared
    shared.close()
    EventLog(tmp_path).close()


def test_a_full_disk_leaves_no_half_line(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append(EVENTS[0])
    whole = log.path.read_bytes()

    class Full:
        def __init__(self, file: object) -> None:
            self.file = file

        def write(self, data: bytes) -> int:
            self.file.write(data[:5])
            raise OSError(28, "No space left on device")

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

    with monkeypatch.context() as patch:
        patch.setattr(log, "_file", Full(log._file))
        with pytest.raises(OSError, match="No space"):
            log.append(EVENTS[1])
    assert log.path.read_bytes() == whole
    log.append(EVENTS[1])
    assert len(recorded(log)) == 2


def test_damage_in_the_middle_is_refused_until_it_is_set_aside(tmp_path: Path) -> None:
    lines = [encode(event) for event in EVENTS]
    path, cursor = tmp_path / "tracking.jsonl", tmp_path / "tracking.sent"
    path.write_bytes(b"".join([*lines[:3], b"\0\0\0\n", *lines[3:]]))
    cursor.write_text("100")
    assert [event for event, _ in scan(path)] == [decode(line) for line in lines]
    with pytest.raises(UserError, match=r"damaged in line 4.*doctor .* --fix"):
        EventLog(tmp_path)
    assert set_log_damage_aside(tmp_path) == 1
    log = EventLog(tmp_path)
    assert recorded(log) == [decode(line) for line in lines]
    assert (tmp_path / "tracking.damaged").read_bytes() == b"\0\0\0\n"
    assert not cursor.exists()
    log.close()


@given(cut=st.integers(0, sum(len(encode(event)) for event in EVENTS)), sent=st.integers(0, 2000))
def test_a_log_cut_at_any_byte_keeps_its_whole_events(cut: int, sent: int) -> None:
    lines = [encode(event) for event in EVENTS]
    whole = [line for n, line in enumerate(lines) if len(b"".join(lines[: n + 1])) <= cut]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "tracking.jsonl"
        path.write_bytes(b"".join(lines)[:cut])
        (Path(name) / "tracking.sent").write_text(str(sent))
        log = EventLog(Path(name))
        assert recorded(log) == [decode(line) for line in whole]
        assert log.sent <= min(sent, log.end)
        log.append(*EVENTS)  # as a resumed sweep does
        log.close()
        assert path.read_bytes().startswith(b"".join(whole))
        steps = [
            (event.number, event.step, name)
            for event, _ in scan(path)
            if isinstance(event, Metrics)
            for name in event.values
        ]
        assert sorted(steps) == [
            (0, 10, "bpc"),
            (0, 10, "loss_nats"),
            (0, 20, "bpc"),
            (1, 10, "bpc"),
        ]


def test_a_metric_of_the_sweep_is_recorded_again_if_its_value_has_changed(log: EventLog) -> None:
    for value in (0.5, 0.5, 0.25, 0.25):
        log.append(SweepMetrics(3, {"best_valid_bpc": value}))
    assert [event.values["best_valid_bpc"] for event in recorded(log)] == [0.5, 0.25]
