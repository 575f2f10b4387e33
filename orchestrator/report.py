"""What a sweep leaves behind when it ends: tables, pictures and the best weights, in its folder."""

import json
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import optuna
from optuna.trial import TrialState
from optuna.visualization import matplotlib as pictures

from orchestrator import leaderboard
from orchestrator.events import Artifact
from orchestrator.plan import SweepPlan
from orchestrator.search import STUDY_FILE, open_study

BEST_KEPT = 3  # trials whose weights are kept with the sweep
_log = logging.getLogger(__name__)


def write(plan: SweepPlan) -> list[Artifact]:
    """Write the report into the folder of the sweep; returns what belongs to the parent run."""
    folder = plan.folder / "report"
    folder.mkdir(exist_ok=True)
    study = open_study(plan.folder, plan.name)
    leaderboard.table(plan).to_csv(folder / "leaderboard.csv", index=False)
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if complete:
        best = {"number": study.best_trial.number, plan.metric: study.best_value}
        text = json.dumps({**best, "settings": study.best_params}, indent=2)
        (folder / "best_config.json").write_text(text + "\n")
    if len(complete) > 1:
        _draw_all(study, folder, plan)
    files = sorted(folder.iterdir())
    return [Artifact(None, str(path), "report") for path in [*files, plan.folder / STUDY_FILE]]


def _draw_all(study: optuna.Study, folder: Path, plan: SweepPlan) -> None:
    drawings: dict[str, Callable[..., Any]] = {
        "history": pictures.plot_optimization_history,
        "parallel_coordinate": pictures.plot_parallel_coordinate,
        "importance": pictures.plot_param_importances,
    }
    for name, draw in drawings.items():
        try:
            with warnings.catch_warnings(action="ignore"):  # its interface is called experimental
                _save(draw(study, target_name=plan.metric), folder / f"{name}.png")
        except (ValueError, RuntimeError) as error:
            # Importance needs parameters that vary in every trial: a small sweep may have none.
            _log.info("no picture of %s: %s", name, error)


def _save(axes: Any, path: Path) -> None:
    figure = axes.figure if hasattr(axes, "figure") else axes[0].figure
    figure.set_size_inches(11, 6)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
