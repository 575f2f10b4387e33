"""A comparison as a page, as files and as text."""

import re
from dataclasses import replace

import pandas as pd
import pytest

from orchestrator.comparison import page, page_plots, report
from tests.support.comparisons import compared


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_is_self_contained_and_holds_everything(here):
    plan, comparison = compared({"a": [0.4, 0.2], "b": [0.1, 0.3]})
    paths = page.write(comparison, here / "out")
    assert all(path.exists() for path in paths)
    text = (here / "out" / "report.html").read_text()
    assert not re.findall(r"(?:src|href)=|url\(", text)
    assert text.count("<canvas") == 5  # results, improvement, solved, two kinds of curves
    assert f"python -m orchestrator.compare --sweeps {plan.name}" in text
    assert "python -m tardis_core.train copy --model tardis --estimator gumbel" in text
    for section in report.SECTIONS.values():
        assert (section.title in text) == (section.title != "Expected best of n trials")
    assert pd.read_csv(here / "out" / "by_seed.csv")["b"].tolist() == [0.1, 0.3]
    for number in ("0.3000", "0.2000", "0.75", "undecided: 2 pairs cannot tell, 6 could"):
        assert number in text  # both means, how often b wins, the verdict


def test_labels_are_escaped(here):
    _, comparison = compared({"<script>alert(1)</script>": [0.4, 0.2], "b & c": [0.1, 0.3]})
    comparison = replace(comparison, facts={"Hardware": "<b>fast</b>"})
    page.write(comparison, here / "out")
    text = (here / "out" / "report.html").read_text()
    assert "<script>alert" not in text
    assert "<b>" not in text
    assert "b &amp; c" in text


def test_failed_seeds_are_reported_on_the_page_and_in_the_text(here):
    _, comparison = compared({"a": [0.4, None], "b": [0.1, 0.3]})
    sentence = "Failed runs are not in the means: a 1 of 2."
    page.write(comparison, here / "out")
    assert sentence in (here / "out" / "report.html").read_text()
    assert sentence in report.text(comparison)
    _, comparison = compared({"a": [0.4, 0.5], "b": [0.1, 0.3]}, name="d")
    assert "failed" not in report.text(comparison)


def test_the_text_has_headings_that_explain_themselves():
    _, comparison = compared({"a": [0.4, 0.2], "b": [0.1, 0.3]})
    text = report.text(comparison)
    for heading in ("mean bce", "std. deviation", "95 % low", "95 % high", "p (Holm)"):
        assert heading in text


def test_the_numbers_of_a_column_have_equally_many_decimals():
    _, comparison = compared({"a": [0.4, 0.3], "b": [0.1, 0.13]})
    means = [line.split()[2] for line in report.text(comparison).splitlines()[3:5]]
    assert means == ["0.1150", "0.3500"]


def test_names_stand_at_the_left_and_numbers_at_the_right():
    _, comparison = compared({"short": [0.4, 0.3], "a long name": [0.1, 0.13]})
    header, *rows = report.text(comparison).splitlines()[2:5]
    assert [line[: len("a long name")] for line in (header, *rows)] == [
        "candidate  ",
        "a long name",
        "short      ",
    ]
    end = header.index("mean bce") + len("mean bce")
    assert [row[:end].split()[-1] for row in rows] == ["0.1150", "0.3500"]


def test_one_seed_says_nothing_about_differences():
    _, comparison = compared({"a": [0.4], "b": [0.1]}, seeds=(1,))
    difference = report.all_tables(comparison)["differences"].iloc[0]
    assert difference["verdict"] == "undecided: 1 pair cannot tell, 6 could"
    cells = report.written(report.all_tables(comparison)["differences"], "bce").iloc[0]
    silent = ["95 % low", "95 % high", "P(better)", "seeds needed"]
    assert cells[silent].tolist() == ["-"] * len(silent)
    assert page_plots.improvements(comparison) is None


def test_a_narrow_terminal_gets_the_tables_without_what_can_be_spared(monkeypatch):
    _, comparison = compared({"a": [0.4, 0.2], "b": [0.1, 0.3]})
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    lines = report.text(comparison).splitlines()
    tables = [line for line in lines if not line.startswith(("copy:", "Differences"))]
    assert max(map(len, tables)) <= 80
    assert any("mean bce" in line for line in lines)
    assert any("p (Holm)" in line and "verdict" in line for line in lines)


def test_the_headline_says_when_the_data_is_made_up():
    _, comparison = compared({"a": [0.4, 0.2]})
    assert "a stand-in" not in report.headline(comparison)
    assert "a stand-in" in report.headline(replace(comparison, real=False))
