"""The champion of a task: the best model of all sweeps, in MLflow's model registry.

A model becomes the champion if there is none, or if it beats the current one on the same data.
Real data outranks a stand-in, and a larger scale a smaller one, so that a smoke test never replaces
a real result or blocks it. Every step checks first, so that doing it twice changes nothing.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from mlflow import MlflowClient
from mlflow.entities import LoggedModel
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_MODEL_VERSIONS

from orchestrator.tracking.events import Model
from orchestrator.tracking.logged_model import VALUE as VALUE  # a tag of versions, too
from tardis_core.scales import SCALES

ALIAS = "champion"
# Tags of a version besides those of the event.
MEASURED_ON = "measured_on"  # the name of the data and the settings of the task, with commas
# Settings that shape only the batches of training: with others the same is measured.
CURRICULUM = ("task.draws", "task.grow_share")


class Verdict(NamedTuple):
    """Whether a model becomes the champion, and why."""

    champion: bool
    reason: str


def registered_name(task: str) -> str:
    """The name of a task's models in the registry."""
    return f"tardis-{task}"


def current_champion(client: MlflowClient, name: str) -> ModelVersion | None:
    """The current champion, if there is one."""
    try:
        return client.get_model_version_by_alias(name, ALIAS)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None  # no such model, or no such alias
        raise


def judge(model: Model, current: ModelVersion | None, run_id: str) -> Verdict:
    """Decide whether the model becomes the champion."""
    if current is None:
        return Verdict(True, "the first model of this name")
    if current.run_id == run_id and current.tags.get(VALUE, str(model.value)) == str(model.value):
        return Verdict(True, "already the champion")
    if VALUE not in current.tags:
        return Verdict(False, f"version {current.version} was chosen by hand")
    value = float(current.tags[VALUE])
    reason = f"version {current.version} has {value:.4g} on {current.tags[MEASURED_ON]}"
    our_rank, current_rank = _rank(model.tags), _rank(current.tags)
    if our_rank != current_rank:
        return Verdict(our_rank > current_rank, f"{reason}, scale {current.tags['scale']}")
    if _measurement(model.tags) != _measurement(current.tags):
        return Verdict(False, f"{reason}, which is other data")
    better = model.value < value if model.better == "lower" else model.value > value
    return Verdict(better, reason)


def _measurement(tags: Mapping[str, str]) -> list[str]:
    """The data and the settings of the task that decide what is measured."""
    parts = tags[MEASURED_ON].split(", ")
    return [part for part in parts if part.partition("=")[0] not in CURRICULUM]


def _rank(tags: Mapping[str, str]) -> tuple[bool, int]:
    """Real data outranks stand-ins, then larger scales outrank smaller ones."""
    return tags["data.real"] == "True", SCALES.index(tags["scale"])


def offer(client: MlflowClient, logged: LoggedModel, model: Model) -> Verdict:
    """Register a logged model if it becomes the champion."""
    run_id = logged.source_run_id
    assert run_id is not None, "every model of a sweep belongs to a trial"
    verdict = judge(model, current_champion(client, model.name), run_id)
    if verdict.champion:
        version = _version_of(client, run_id, model) or _register(client, logged, model)
        client.set_registered_model_alias(model.name, ALIAS, version.version)
        # So that the page of the logged model leads to the version.
        registered = json.dumps([{"name": model.name, "version": version.version}])
        client.set_logged_model_tags(logged.model_id, {MLFLOW_MODEL_VERSIONS: registered})
    return verdict


def _version_of(client: MlflowClient, run_id: str, model: Model) -> ModelVersion | None:
    """The version of this run that a process registered before it was killed, if any."""
    same = (run_id, str(model.value))
    versions = client.search_model_versions(f"name = '{model.name}'")
    return next((each for each in versions if (each.run_id, each.tags.get(VALUE)) == same), None)


def _register(client: MlflowClient, logged: LoggedModel, model: Model) -> ModelVersion:
    try:
        client.create_registered_model(model.name, description=model.family)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    # Not models:/ID: the registry would look for that model in MLflow's global store.
    return client.create_model_version(
        model.name,
        logged.artifact_location,
        logged.source_run_id,
        tags={**model.tags, VALUE: str(model.value), "better": model.better},
        description=model.description,
        model_id=logged.model_id,
    )
