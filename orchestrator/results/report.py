"""The pieces of a report that every kind of sweep has; `orchestrator.sweep_session` uses them."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from orchestrator.execution.checkpoints import fetch_best
from orchestrator.results import leaderboard, pareto
from orchestrator.results.records import Records
from orchestrator.tracking.events import Artifact, Event, SweepMetrics, SweepTags
from tardis_core.build import build_task
from tardis_core.commands import training_command
from tardis_core.models.base import MODELS
from tardis_core.training.run_folder import load_checkpoint, load_network

INSPECTION = "inspect"  # the folder of memory plots among the artifacts of a trial
KEPT_TRIALS = 3  # best trials whose weights are kept with the sweep


def write_tables(records: Records, folder: Path) -> None:
    """Write the leaderboard, and the configuration of the best trial if there is one."""
    records.table().to_csv(folder / "leaderboard.csv", index=False)
    if pareto.second_objective(records):
        pareto.table(records).to_csv(folder / pareto.FRONT, index=False)
    number = records.best_trial()
    if number is not None:
        best = {
            "number": number,
            records.plan.metric: records.objective(number),
            "command": command_of(records, number),
            "config": records.trials[number].config().to_dict(),
        }
        (folder / "best_config.json").write_text(json.dumps(best, indent=2) + "\n")


def command_of(records: Records, number: int) -> str:
    """The command that trains a trial again."""
    plan = records.plan
    return training_command(records.trials[number].config(), plan.data_dir, plan.data)


def description(records: Records) -> SweepTags:
    """The leaderboard as the description of the sweep in the MLflow UI."""
    return SweepTags({MLFLOW_RUN_NOTE: leaderboard.markdown(records)})


def best_so_far(records: Records) -> Iterator[Event]:
    """The best validation as a metric of the sweep, so that sweeps can be ranked in MLflow."""
    number = records.best_trial()
    value = None if number is None else records.objective(number)
    if value is not None:
        validations = sum(len(trial.rows) for trial in records.trials.values())
        yield SweepMetrics(validations, {records.plan.best_metric: value})


def artifacts_of_best_trials(records: Records, data: Any) -> Iterator[Event]:
    """Weights of the best trials, with plots of how they use their memory.

    Args:
        data: of the task, as the trials had it.

    Raises:
        OSError: if the storage of the sweep cannot be reached
    """
    for number in records.best(KEPT_TRIALS):
        weights = fetch_best(records.plan, number)
        if weights is None:
            continue
        yield Artifact(number, str(weights), "checkpoint")
        for plot in _memory_plots(weights, data):
            yield Artifact(number, str(plot), INSPECTION)


def memory_plots(events: Iterable[Event], number: int | None) -> list[Path]:
    """The plots of one trial's memory among the artifacts of the best trials."""
    plots = [
        Path(event.path)
        for event in events
        if isinstance(event, Artifact) and event.number == number
        if event.artifact_path == INSPECTION
    ]
    return [path for path in plots if path.suffix == ".png"]


def _memory_plots(weights: Path, data: Any) -> list[Path]:
    """Plots of how a model uses its memory on validation examples; none without a memory."""
    # Not at the start of every sweep, which matplotlib would delay.
    from tardis_core.analysis.inspection import inspect_model

    values, config = load_checkpoint(weights)
    if not MODELS.get(config.model).discrete:
        return []
    task = build_task(config, data)
    network = load_network(values, config, weights)
    title = f"{config.task}, {config.system}, scale {config.scale}"
    return inspect_model(network, task, weights.parent / "inspect", title, "valid").plots
