"""What a sweep leaves behind when it ends: tables, pictures and the best models, in its folder."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from orchestrator.comparison import report as comparison_report
from orchestrator.comparison import runs as comparison_runs
from orchestrator.comparison import tables
from orchestrator.execution.checkpoints import fetch_best
from orchestrator.execution.study import STUDY_FILE, open_study
from orchestrator.models import export
from orchestrator.planning.plan import ComparisonPlan, SearchPlan, SweepPlan
from orchestrator.results import leaderboard, plots, records
from orchestrator.tracking.champion import MEASURED_ON, registered_name
from orchestrator.tracking.events import Artifact, Event, Model, SweepTags
from tardis_core.analysis.inspection import inspect_model
from tardis_core.build import build_task
from tardis_core.commands import training_command
from tardis_core.config import Config
from tardis_core.models.base import MODELS
from tardis_core.serving.base import PREDICTORS
from tardis_core.tasks.base import TASKS
from tardis_core.training.run_folder import load_checkpoint, load_network

BEST_KEPT = 3  # trials whose weights are kept with the sweep
_log = logging.getLogger(__name__)


def write(plan: SweepPlan, data: Any, finished: bool) -> list[Event]:
    """Write the report into the folder of the sweep; returns what is to be recorded of it.

    Args:
        data: of the task, as the trials had it.
    """
    folder = plan.folder / "report"
    folder.mkdir(exist_ok=True)
    _write_tables(plan, folder)
    if isinstance(plan, SearchPlan):
        plots.draw_search(open_study(plan.folder, plan.name), plan.metric, folder)
    paths = sorted(folder.iterdir())
    if isinstance(plan, SearchPlan):
        paths.append(plan.folder / STUDY_FILE)
    events: list[Event] = [SweepTags({MLFLOW_RUN_NOTE: leaderboard.markdown(plan)})]
    events += [Artifact(None, str(path), "report") for path in paths]
    try:
        events += _best_trials(plan, data)
        if finished:
            events += _model(plan, data)
    except OSError as error:  # the storage is away: the measurements are safe all the same
        _log.warning("the weights of the best trials could not be fetched: %s", error)
    return events


def _write_tables(plan: SweepPlan, folder: Path) -> None:
    leaderboard.table(plan).to_csv(folder / "leaderboard.csv", index=False)
    if isinstance(plan, ComparisonPlan):
        compared = comparison_runs.of_plan(plan)
        if compared is not None:
            comparison_report.write(compared, folder)
    number = best_trial(plan)
    if number is not None:
        config, value = _config_and_value(plan, number)
        about = {"number": number, plan.metric: value, "command": _command(plan, config)}
        text = json.dumps({**about, "config": config.to_dict()}, indent=2)
        (folder / "best_config.json").write_text(text + "\n")


def best_trial(plan: SweepPlan) -> int | None:
    """The trial that stands for the sweep; of a comparison one of the best candidate."""
    if isinstance(plan, ComparisonPlan):
        return _winner(plan)
    return next(iter(leaderboard.best(plan, 1)), None)


def _winner(plan: ComparisonPlan) -> int | None:
    """The best run of the candidate with the best mean."""
    compared = comparison_runs.of_plan(plan)
    if compared is None:
        return None
    label = tables.summary(compared)["system"][0]
    ranked = leaderboard.best(plan, plan.trials)
    return next(number for number in ranked if plan.candidate_of(number).label == label)


def _config_and_value(plan: SweepPlan, number: int) -> tuple[Config, float]:
    record = records.read(plan)[number]
    row = record.best_row(plan.metric, plan.better)
    assert row is not None, "the best trial has been validated"
    return record.config(), row[f"valid_{plan.metric}"]


def command_of(plan: SweepPlan, number: int) -> str:
    """The command that trains a trial again, with what it reached."""
    config, value = _config_and_value(plan, number)
    return f"{_command(plan, config)}\n          valid {plan.metric} {value:.4g}"


def _command(plan: SweepPlan, config: Config) -> str:
    return training_command(config, plan.data_dir, plan.data)


def _best_trials(plan: SweepPlan, data: Any) -> Iterator[Event]:
    for number in leaderboard.best(plan, BEST_KEPT):
        weights = fetch_best(plan, number)
        if weights is None:
            continue
        yield Artifact(number, str(weights), "checkpoint")
        for picture in _look_inside(weights, data):
            yield Artifact(number, str(picture), "inspect")


def _look_inside(weights: Path, data: Any) -> list[Path]:
    """Pictures of how a model uses its memory on validation examples; none of one without."""
    values, config = load_checkpoint(weights)
    if not MODELS.get(config.model).discrete:
        return []
    task = build_task(config, data)
    network = load_network(values, config, weights)
    title = f"{config.task}, {config.system}, scale {config.scale}"
    return inspect_model(network, task, weights.parent / "inspect", title, "valid").pictures


def _model(plan: SweepPlan, data: Any) -> Iterator[Event]:
    """The best model, offered as champion; by the seeds, where there will be or are some."""
    number = best_trial(plan)
    if number is None or not plan.offers_model:
        return
    if plan.task not in PREDICTORS.names():  # nobody has said what such a model is asked
        return
    weights = fetch_best(plan, number)
    if weights is None:
        return
    folder = weights.parent / "model"
    export.save(weights, folder)
    config, value = _config_and_value(plan, number)
    task = {key: told for key, told in config.settings().items() if key.startswith("task.")}
    about = TASKS.get(plan.task).provenance(config.task_settings, data)
    name = f"{about.name} {about.sha256[:12]}".strip()
    tags = {
        "data.real": str(about.real),
        MEASURED_ON: ", ".join([name, *(f"{key}={told}" for key, told in task.items())]),
        "metric": f"valid_{plan.metric}",
        "scale": plan.scale,
        "sweep": plan.name,
        "trial": str(number),
        "command": _command(plan, config),
    }
    yield Model(number, str(folder), registered_name(plan.task), value, plan.better, tags)
