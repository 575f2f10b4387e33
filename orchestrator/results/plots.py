"""Plots of a search, drawn by Optuna.

Optuna draws with pyplot, which takes a second to import: import this module only to draw.
"""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import optuna
from optuna.trial import TrialState
from optuna.visualization import matplotlib as optuna_plots

MAX_AXES = 6  # of parallel coordinates: more than that nobody can read
_log = logging.getLogger(__name__)


def draw_search(study: optuna.Study, metric: str, folder: Path) -> None:
    """Write history, parallel coordinates and importance of a study, where they can be drawn."""
    if len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))) < 2:
        return
    with _isolated_pyplot():
        _draw(optuna_plots.plot_optimization_history, study, metric, folder / "history.png")
        _draw(optuna_plots.plot_param_importances, study, metric, folder / "importance.png")
        path = folder / "parallel_coordinate.png"
        params = _important_parameters(study)
        _draw(optuna_plots.plot_parallel_coordinate, study, metric, path, params=params)


@contextmanager
def _isolated_pyplot() -> Iterator[None]:
    """Draw to files only, and leave backend, style and open figures as they were."""
    backend, figures = matplotlib.get_backend(), set(plt.get_fignums())
    plt.switch_backend("Agg")
    try:
        with matplotlib.rc_context():  # Optuna sets the style ggplot, and never resets it
            yield
    finally:
        for number in set(plt.get_fignums()) - figures:
            plt.close(number)
        plt.switch_backend(backend)


def _important_parameters(study: optuna.Study) -> list[str]:
    """The parameters that matter most, among those that every complete trial has."""
    from optuna.importance import get_param_importances  # imports scikit-learn, which takes 1 s

    try:
        with warnings.catch_warnings(action="ignore"):
            return list(get_param_importances(study))[:MAX_AXES]
    except (ValueError, RuntimeError):
        trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        common = set.intersection(*(set(trial.params) for trial in trials))
        return sorted(common)[:MAX_AXES]


def _draw(
    plot: Callable[..., Any], study: optuna.Study, metric: str, path: Path, **options: Any
) -> None:
    try:
        with warnings.catch_warnings(action="ignore"):  # Optuna calls the interface experimental
            axes = plot(study, target_name=metric, **options)
        figure = axes.figure if hasattr(axes, "figure") else axes[0].figure
        figure.set_size_inches(11, 6)
        figure.tight_layout()
        figure.savefig(path, dpi=110)
    except (ValueError, RuntimeError) as error:
        # Importance needs parameters that vary in every trial: a small sweep may have none.
        _log.info("no plot %s: %s", path.name, error)
