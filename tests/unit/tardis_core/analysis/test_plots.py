"""Pictures show what they are given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import style
from matplotlib.patches import Arc

from tardis_core.analysis import path_plots
from tardis_core.analysis.access import Access
from tardis_core.analysis.plots import access_figure, draw_access


def access(gates: bool) -> Access:
    return Access(
        labels=("a", "b", "c", "d"),
        scored_T=np.array([False, False, True, True]),
        read_T=np.array([1, 0, 1, 0]),
        written_T=np.array([0, 1, 1, 0]),
        source_T=np.array([-1, 0, 1, 0]),
        probability_TK=np.full((4, 2), 0.5),
        alpha_T=np.array([0.1, 0.2, 0.3, 0.4]) if gates else None,
        beta_T=np.array([0.9, 0.8, 0.7, 0.6]) if gates else None,
    )


@pytest.mark.slow
@pytest.mark.parametrize("gates", [True, False])
def test_a_png_is_written(tmp_path, gates):
    before = plt.get_fignums()
    draw_access(access(gates), tmp_path / "access.png", "a title")
    assert (tmp_path / "access.png").read_bytes().startswith(b"\x89PNG")
    assert plt.get_fignums() == before, "figures are closed"


def test_every_wormhole_is_an_arc_from_the_read_to_its_source():
    figure = access_figure(access(gates=False))
    arcs = [patch for axes in figure.axes for patch in axes.patches if isinstance(patch, Arc)]
    ends = sorted((arc.center[0] - arc.width / 2, arc.center[0] + arc.width / 2) for arc in arcs)
    assert ends == [(0, 1), (0, 3), (1, 2)]


@pytest.mark.slow
def test_the_tokens_stand_under_the_steps():
    figure = access_figure(access(gates=True))
    figure.draw_without_rendering()
    written = [[text.get_text() for text in axes.get_xticklabels()] for axes in figure.axes]
    assert written[1][:4] == ["a", "b", "c", "d"]


DRAWINGS = {
    "access": lambda path: draw_access(access(gates=True), path, "a title"),
    "cells": lambda path: path_plots.draw_cell_lengths({"a": np.eye(3)}, 4.0, path),
    "paths": lambda path: path_plots.draw_paths_by_distance({"a": np.arange(9.0)}, path, "title"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWINGS)
def test_the_style_that_others_have_set_does_not_matter(tmp_path, name):
    # Optuna, for one, sets ggplot for the whole process, with grid lines over heat maps.
    DRAWINGS[name](tmp_path / "plain.png")
    with style.context("ggplot"):
        DRAWINGS[name](tmp_path / "styled.png")
    assert (tmp_path / "plain.png").read_bytes() == (tmp_path / "styled.png").read_bytes()
