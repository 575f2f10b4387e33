"""Plots of a search, which leave nothing behind in the process that draws them."""

import matplotlib
import matplotlib.pyplot as plt
import pytest
from matplotlib import style

from orchestrator.results import plots
from orchestrator.results.records import Records
from tests.support.sweep_logs import fill, make_plan


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan()
    fill(plan, [0.5, 0.1, 0.3, (0.4,)])
    return Records.load(plan).study()


def test_history_importance_and_parallel_coordinates_are_drawn(study, real_plots, tmp_path):
    plots.draw_search(study, "bce", tmp_path)
    for name in ("history.png", "parallel_coordinate.png", "importance.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_drawing_leaves_the_style_of_other_plots_alone(study, tmp_path):
    with style.context("default"):  # whatever style other tests have left behind
        before = dict(matplotlib.rcParams)
        plots.draw_search(study, "bce", tmp_path)
        after = dict(matplotlib.rcParams)
    assert {key for key in before if before[key] != after[key]} == set()


def test_drawing_leaves_a_notebook_its_backend(study, tmp_path):
    before = matplotlib.get_backend()
    plt.switch_backend("svg")
    try:
        plots.draw_search(study, "bce", tmp_path)
        assert matplotlib.get_backend() == "svg"
    finally:
        plt.switch_backend(before)
    assert (tmp_path / "history.png").exists()


def test_drawing_leaves_no_figure_open_even_if_it_fails(study, tmp_path, monkeypatch):
    def fail(study, **options):
        plt.subplots()
        raise ValueError("not enough trials")

    monkeypatch.setattr(plots.optuna_plots, "plot_param_importances", fail)
    own = plt.figure()
    before = plt.get_fignums()
    plots.draw_search(study, "bce", tmp_path)
    assert plt.get_fignums() == before
    plt.close(own)
