"""A single training recorded in MLflow, next to the sweeps of its task."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME
from requests import RequestException

from orchestrator.common.provenance import git_commit, hardware
from orchestrator.tracking.data_tags import DataRecord
from orchestrator.tracking.mlflow_runs import clean_name, clean_text
from orchestrator.tracking.mlflow_store import reach_store
from tardis_core.training.loop import Row, Trainer

FOLDER = "tardis.run_folder"  # by this tag a resumed training finds its run

_log = logging.getLogger(__name__)


class RunTracker:
    """Records a training while it runs; a store that goes away does not stop it."""

    def __init__(self, tracking_uri: str) -> None:
        """Raises `UserError` without a store, before the training writes anything."""
        self._uri = tracking_uri
        self._client, _ = reach_store(tracking_uri, "Default")  # which every store has
        self._steps: set[int] = set()  # that are recorded
        self.run_id = ""

    def started(self, trainer: Trainer, folder: Path) -> None:
        """Find the run of the folder, or create it."""
        _, experiment_id = reach_store(self._uri, f"tardis-{trainer.config.task}")
        path = str(folder.absolute())
        runs = self._client.search_runs([experiment_id], f"tags.`{FOLDER}` = '{path}'")
        if runs:
            self.run_id = runs[0].info.run_id
            self._client.update_run(self.run_id, "RUNNING")
            history = self._client.get_metric_history(self.run_id, "loss")
            self._steps = {each.step for each in history}
            return
        tags = {MLFLOW_RUN_NAME: folder.name, FOLDER: path, "kind": "training", **_tags(trainer)}
        self.run_id = self._client.create_run(experiment_id, tags=tags).info.run_id
        params = [Param(clean_name(k), clean_text(str(v), 6000)) for k, v in _params(trainer)]
        self._client.log_batch(self.run_id, params=params)

    def validated(self, rows: Sequence[Row]) -> None:
        """Log the rows that are new."""
        for row in rows:
            step = int(row["update"])
            if step not in self._steps:
                self._steps.add(step)
                self._log({name: value for name, value in row.items() if name != "update"}, step)

    def ended(self, result: Mapping[str, Any] | None) -> None:
        """Log the result and end the run."""
        if result is not None:
            test = {f"test_{name}": value for name, value in result["test"].items()}
            self._log(test, result["updates"])
            tags = [RunTag("best_update", str(result["best_update"]))]
            self._attempt(lambda client: client.log_batch(self.run_id, tags=tags))
        status = "KILLED" if result is None else "FINISHED"
        self._attempt(lambda client: client.set_terminated(self.run_id, status))

    def _log(self, values: Mapping[str, float], step: int) -> None:
        now = time.time_ns() // 10**6
        metrics = [Metric(name, value, now, step) for name, value in values.items()]
        self._attempt(lambda client: client.log_batch(self.run_id, metrics=metrics))

    def _attempt(self, call: Callable[[MlflowClient], object]) -> None:
        try:
            call(self._client)
        except (MlflowException, RequestException) as error:
            _log.warning("a result could not be sent to MLflow (metrics.csv has it): %s", error)


def _tags(trainer: Trainer) -> dict[str, str]:
    source = trainer.provenance
    return {
        "task": trainer.config.task,
        "scale": trainer.config.scale,
        **DataRecord(source.name, source.sha256, source.real).tags,
        "git_commit": git_commit(),
        "hardware": hardware(),
        "backend": trainer.backend,
    }


def _params(trainer: Trainer) -> list[tuple[str, Any]]:
    names = ("task", "model", "estimator", "scale", "seed")
    named = [(name, getattr(trainer.config, name)) for name in names]
    return [*named, *trainer.config.settings().items()]
