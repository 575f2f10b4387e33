"""Why trials failed: each distinct reason once, with its trials."""

import pytest

from orchestrator.results import failures
from orchestrator.results.records import Records
from tests.support.sweep_logs import COMPLETE, make_plan, params_of, record

NAN = "Diverged: the loss is nan at update {}"
MEMORY = "Traceback (most recent call last):\n  File x\nOutOfMemory: memory ran out"


@pytest.fixture
def records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan()
    errors = [NAN.format(12), MEMORY, NAN.format(7), NAN.format(1.5), None, ""]
    for number, error in enumerate(errors):
        ending = COMPLETE if error is None else ("FAILED", {"error": error} if error else {})
        record(plan, number, [0.5], ending, params_of(1e-3))
    return Records.load(plan)


def test_reasons_that_differ_in_numbers_are_one(records):
    assert failures.reasons(records) == {
        NAN.format(12): [0, 2, 3],
        "OutOfMemory: memory ran out": [1],
        failures.UNKNOWN: [5],
    }


def test_a_line_per_reason_names_its_trials(records):
    assert failures.lines(records) == [
        "failed:   Diverged: the loss is nan at update 12 (trials 0, 2-3)",
        "failed:   OutOfMemory: memory ran out (trial 1)",
        "failed:   no reason recorded (trial 5)",
    ]
