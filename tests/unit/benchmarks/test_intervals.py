"""A table of the docs as a plot."""

from pathlib import Path

import pytest

from benchmarks.tools.intervals import draw, main, read

NOTEBOOK = Path(__file__).parents[3] / "docs" / "notebook.md"
PAGE = """
# Results

### One
| model | mean | by seed |
|---|---|---|
| other | 9 | 9, 9 |

### Two
Words.

| model | mean | by seed 1 to 3 |
|---|---|---|
| a | 2.0 | 1.0, 2.0, 3.0 |
| b | 5.0 | 4.0, 5.0, 6.0 |

| model | by seed |
| c | 7.0 |
"""


def test_the_values_are_those_of_the_first_table_below_the_heading():
    assert read(PAGE, "Two") == {"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]}


def test_the_first_row_is_at_the_top():
    (axes,) = draw(read(PAGE, "Two"), "loss").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a"]
    means = [line for line in axes.lines if line.get_marker() == "D"]
    assert [float(line.get_xdata()[0]) for line in means] == [5.0, 2.0]


@pytest.mark.parametrize("heading", ["Three", "Results of others"])
def test_a_heading_that_is_not_there_is_refused_in_one_line(heading, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    options = [str(page), "--label", "loss", "--out", str(tmp_path / "plot.png")]
    assert main([*options, "--heading", heading]) == 2
    assert f"the page must have the heading {heading!r}" in capsys.readouterr().err
    assert not (tmp_path / "plot.png").exists()


def test_the_table_of_the_notebook_can_be_drawn(tmp_path):
    heading = "500 updates after searches of equal cost, six seeds"
    options = ["--heading", heading, "--label", "bits", "--out", str(tmp_path / "plot.png")]
    assert [len(runs) for runs in read(NOTEBOOK.read_text(), heading).values()] == [6, 6, 6, 6]
    assert main([str(NOTEBOOK), *options]) == 0
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
