"""Pictures of a search, drawn by Optuna."""

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
from optuna.visualization import matplotlib as draw

MOST_AXES = 6  # of parallel coordinates: more than that nobody can read
_log = logging.getLogger(__name__)


def draw_search(study: optuna.Study, metric: str, folder: Path) -> None:
    """Write what can be drawn of a study: history, parallel coordinates, importance."""
    if len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))) < 2:
        return
    with _to_files():
        _try(draw.plot_optimization_history, study, metric, folder / "history.png")
        _try(draw.plot_param_importances, study, metric, folder / "importance.png")
        path = folder / "parallel_coordinate.png"
        _try(draw.plot_parallel_coordinate, study, metric, path, params=_telling(study))


@contextmanager
def _to_files() -> Iterator[None]:
    """Optuna draws by pyplot: it shall open no window, and a notebook keep its own backend."""
    before = matplotlib.get_backend()
    plt.switch_backend("Agg")
    try:
        yield
    finally:
        plt.switch_backend(before)


def _telling(study: optuna.Study) -> list[str]:
    """The parameters that matter most, among those that every complete trial has."""
    from optuna.importance import get_param_importances  # here: it brings scikit-learn, a second

    try:
        with warnings.catch_warnings(action="ignore"):
            return list(get_param_importances(study))[:MOST_AXES]
    except (ValueError, RuntimeError):
        trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        common = set.intersection(*(set(trial.params) for trial in trials))
        return sorted(common)[:MOST_AXES]


def _try(
    drawing: Callable[..., Any], study: optuna.Study, metric: str, path: Path, **more: Any
) -> None:
    others = set(plt.get_fignums())
    try:
        with warnings.catch_warnings(action="ignore"):  # the interface is called experimental
            axes = drawing(study, target_name=metric, **more)
        figure = axes.figure if hasattr(axes, "figure") else axes[0].figure
        figure.set_size_inches(11, 6)
        figure.tight_layout()
        figure.savefig(path, dpi=110)
    except (ValueError, RuntimeError) as error:
        # Importance needs parameters that vary in every trial: a small sweep may have none.
        _log.info("no picture %s: %s", path.name, error)
    finally:  # pyplot would keep it; a notebook may have figures of its own
        for number in set(plt.get_fignums()) - others:
            plt.close(number)
