"""Pages of one file: valid, escaped, and nothing to load from elsewhere."""

import json
import re
from html.parser import HTMLParser

from orchestrator.page.page import Code, Page, Plot, Section, Table, render, rounded

EVIL = '</script><script>alert("x")</script>'
VOID = {"meta", "img", "br"}


class Reader(HTMLParser):
    """The elements and the texts of a page; fails if an element is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.attributes: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += [value or "" for _, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def inside(self, tag: str) -> list[str]:
        """The texts of all elements of a kind."""
        return [text for element, text in self.texts if element == tag]


def page_of(*parts, **more) -> str:
    sections = [Section("a section", parts, "a note")]
    return render(Page("title", "headline", {"Best": "1.5"}, {"Data": "ptb"}, sections, **more))


def test_the_page_has_everything_and_loads_nothing():
    plot = Plot("points", "a plot", {"points": [[0, 1.25, "complete"]]})
    table = Table(["a", "b"], [["1", "x"], ["2", "y"]])
    text = page_of(table, plot, Code("python -m this"), warnings=["careful"])
    reader = Reader(text)
    for word in ("title", "headline", "1.5", "ptb", "a section", "a note", "careful", "a plot"):
        assert any(word in each for _, each in reader.texts), word
    assert "python -m this" in reader.inside("pre")
    assert {"1", "2", "x", "y"} <= set(reader.inside("td"))
    assert not re.findall(r"(?:src|href)=|url\(|import\s", text)
    assert "default-src 'none'" in text


def test_what_users_write_is_never_code():
    parts = [Table([EVIL], [[EVIL]], sortable=True), Plot("bars", EVIL, {"bars": [[EVIL, 1]]})]
    text = page_of(*parts, Code(EVIL), warnings=[EVIL])
    reader = Reader(text)
    scripts = [each for each in reader.inside("script") if each.strip()]
    assert not [each for each in scripts if each.strip() == 'alert("x")']
    data = [json.loads(each) for each in scripts if each.strip()[0] in "[{"]
    assert data == [[[EVIL]], {"bars": [[EVIL, 1]]}]
    assert EVIL in reader.attributes  # the label of the plot, escaped


def test_columns_of_numbers_are_aligned_to_the_right():
    table = Table(["name", "value"], [["1a", "1.5"], ["b", "-"], ["c", ""]])
    assert table.numeric == [False, True]
    assert page_of(table).count('class="number"') == 4  # the heading and three cells


def test_only_the_first_rows_are_elements_and_a_button_shows_the_others():
    text = page_of(Table(["n"], [[str(n)] for n in range(1000)]))
    assert len(re.findall("<td", text)) == 15
    assert "Show all 1000" in text
    (rows,) = [json.loads(e) for e in Reader(text).inside("script") if e.startswith("[")]
    assert len(rows) == 1000


def test_numbers_of_plots_are_short_and_nan_is_nothing():
    assert rounded([1 / 3, None, float("nan"), 123456.0]) == [0.33333, None, None, 123460.0]
    assert rounded([float("inf")]) == [None]
