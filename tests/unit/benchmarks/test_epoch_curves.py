"""A table with one row per epoch as a plot."""

from pathlib import Path

import pytest

from benchmarks.tools.epoch_curves import draw, main, read

NOTEBOOK = Path(__file__).parents[3] / "docs" / "notebook.md"
PAGE = """
### Training
| epoch | LSTM | TARDIS | note |
|---|---|---|---|
| 1 | 1.70 | 1.72 | warm-up |
| 20 | **1.35** | 1.39 | |
"""


def test_only_the_columns_asked_for_are_read_and_bold_is_a_number():
    table = read(PAGE, "Training", ["LSTM"])
    assert table.to_dict("list") == {"LSTM": [1.70, 1.35]}
    assert list(table.index) == [1, 20]


def test_the_right_panel_has_the_minutes_of_each_model():
    figure = draw(read(PAGE, "Training", ["LSTM", "TARDIS"]), {"LSTM": 2, "TARDIS": 3}, "bits")
    left, right = figure.axes
    assert [list(line.get_xdata()) for line in left.lines] == [[1, 20], [1, 20]]
    assert [list(line.get_xdata()) for line in right.lines] == [[2, 40], [3, 60]]
    assert [list(line.get_ydata()) for line in right.lines] == [[1.70, 1.35], [1.72, 1.39]]


@pytest.mark.parametrize(
    ("heading", "minutes", "reason"),
    [
        ("Trainings", "LSTM=2", "the page must have the heading 'Trainings'"),
        ("Training", "GRU=2", "the table below 'Training' has no column 'GRU'"),
        ("Training", "LSTM=two", "--minutes LSTM must be a number, not 'two'"),
    ],
)
def test_a_wrong_call_gets_one_line_and_writes_nothing(tmp_path, capsys, heading, minutes, reason):
    page, plot = tmp_path / "page.md", tmp_path / "plot.png"
    page.write_text(PAGE)
    options = ["--heading", heading, "--minutes", minutes, "--label", "bits", "--out", str(plot)]
    assert main([str(page), *options]) == 2
    assert reason in capsys.readouterr().err
    assert not plot.exists()


def test_the_table_of_the_notebook_can_be_drawn(tmp_path):
    heading = "Twenty epochs with 512 hidden units, one seed"
    options = ["--heading", heading, "--label", "bits", "--out", str(tmp_path / "plot.png")]
    assert main([str(NOTEBOOK), *options, "--minutes", "TARDIS gumbel=3.35"]) == 0
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
