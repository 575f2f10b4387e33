"""The report of a search says what ran, what came out, and how to make it again."""

import pytest

from orchestrator.results import search_page
from orchestrator.results.records import Records
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import SweepStarted
from tests.support.sweep_logs import fill, make_plan, params_of, record


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def page_of(values, here, **tags):
    plan = make_plan()
    log = EventLog(plan.folder)
    log.append(SweepStarted("s", tags))
    log.close()
    fill(plan, values)
    search_page.write(Records.load(plan), here)
    return (here / "report.html").read_text()


def test_the_page_has_the_headline_the_numbers_and_the_command(here):
    tags = {"command": "python -m orchestrator.sweep copy --name <s>", "hardware": "a laptop"}
    text = page_of([0.5, None, 0.125, (0.05,)], here, data="copy", **tags)
    for word in ("Sweep s", "a laptop", "0.1250", "Leaderboard", "Learning curves", "History"):
        assert word in text, word
    assert "python -m orchestrator.sweep copy --name &lt;s&gt;" in text
    assert "python -m tardis_core.train copy --model tardis" in text
    assert "Best configuration: trial 2" in text
    assert "Importance is shown from 10 complete trials on; there are 2." in text
    assert "diverged" in text  # why trial 1 failed
    assert "generated in place of the real data" not in text


def test_the_page_warns_of_a_stand_in(here):
    assert "generated in place" in page_of([0.5, 0.1], here, data="x", **{"data.real": "False"})


def test_reasons_that_differ_only_in_numbers_are_one_as_on_the_terminal(here):
    plan = make_plan()
    fill(plan, [0.5])
    for number, update in ((1, 120), (2, 340)):
        error = f"Diverged: the loss is nan at update {update}\nlower training.clip"
        record(plan, number, [], ("FAILED", {"error": error}), params_of(1e-3))
    (section,) = [
        each for each in search_page.page(Records.load(plan)).sections if each.title == "Failures"
    ]
    (table,) = section.parts
    assert table.rows == [["Diverged: the loss is nan at update 120", "2", "1, 2"]]


def test_a_search_without_a_result_has_a_page(here):
    text = page_of([None, None], here)
    assert "Best configuration" not in text
    assert "diverged" in text
