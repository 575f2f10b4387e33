"""Plots of a comparison."""

import matplotlib
import numpy as np
import pytest
from matplotlib import style

from orchestrator.comparison import plots
from tests.support.comparisons import compared


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, real_plots):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_curves_of_runs_that_took_different_times_are_drawn_where_all_have_values(here):
    _, comparison = compared({"a": [0.4, 0.2]})
    for run, factor in zip(comparison.groups[0].runs, (1.0, 3.0), strict=True):
        run.curve["seconds"] = np.array([1.0]) * factor
    for path in plots.draw(comparison, here).values():
        assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_style_of_the_process_does_not_matter_and_stays(here):
    _, comparison = compared({"a": [0.4, 0.2], "b": [0.1, 0.3]})
    (here / "plain").mkdir()
    (here / "styled").mkdir()
    plain = plots.draw(comparison, here / "plain")
    with style.context("ggplot"):
        before = dict(matplotlib.rcParams)
        styled = plots.draw(comparison, here / "styled")
        assert dict(matplotlib.rcParams) == before
    for title, path in plain.items():
        assert path.read_bytes() == styled[title].read_bytes()
