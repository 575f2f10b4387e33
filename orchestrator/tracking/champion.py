"""The champion of a task: the best model that any sweep has found, in MLflow's model registry.

A model becomes the champion if there is none, or if it beats the present one on the same data.
Real data goes before a stand-in, and a greater scale before a smaller: what `make sweep` finds in a
minute does not stand in the way of the real thing. All is done by looking first, so that doing it
twice changes nothing.
"""

from collections.abc import Mapping
from typing import NamedTuple

from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from orchestrator.tracking.events import Model
from tardis_core.scales import SCALES

ALIAS = "champion"
FOLDER = "model"  # of the artifacts of its run
# Tags of a version, beside those of the event.
VALUE, MEASURED_ON = "value", "measured_on"


class Verdict(NamedTuple):
    """Whether a model is the champion, and why."""

    champion: bool
    reason: str


def registered_name(task: str) -> str:
    """The name of the models of a task in the registry."""
    return f"tardis-{task}"


def current_champion(client: MlflowClient, name: str) -> ModelVersion | None:
    """The present champion."""
    try:
        return client.get_model_version_by_alias(name, ALIAS)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None  # no such model, or no such alias
        raise


def judge(model: Model, present: ModelVersion | None, run_id: str) -> Verdict:
    """Is the model to be the champion?"""
    if present is None:
        return Verdict(True, "the first of its name")
    if present.run_id == run_id:
        return Verdict(True, "the champion as it was")
    if VALUE not in present.tags:
        return Verdict(False, f"version {present.version} was chosen by hand")
    theirs = float(present.tags[VALUE])
    what = f"version {present.version} has {theirs:.4g} on {present.tags[MEASURED_ON]}"
    ours, held = _rank(model.tags), _rank(present.tags)
    if ours != held:
        return Verdict(ours > held, f"{what}, scale {present.tags['scale']}")
    if model.tags[MEASURED_ON] != present.tags[MEASURED_ON]:
        return Verdict(False, f"{what}, which is other data")
    better = model.value < theirs if model.better == "lower" else model.value > theirs
    return Verdict(better, what)


def _rank(tags: Mapping[str, str]) -> tuple[bool, int]:
    """Real data before stand-ins, greater scales before smaller ones."""
    return tags["data.real"] == "True", SCALES.index(tags["scale"])


def offer(client: MlflowClient, run_id: str, model: Model) -> Verdict:
    """Register the model of a run, which is among its artifacts, if it is to be the champion."""
    verdict = judge(model, current_champion(client, model.name), run_id)
    if verdict.champion:
        version = _version_of(client, run_id, model) or _register(client, run_id, model)
        client.set_registered_model_alias(model.name, ALIAS, version.version)
    return verdict


def _version_of(client: MlflowClient, run_id: str, model: Model) -> ModelVersion | None:
    """The version that was made of this run by somebody who did not live to say so."""
    found = client.search_model_versions(f"name = '{model.name}'")
    return next((version for version in found if version.run_id == run_id), None)


def _register(client: MlflowClient, run_id: str, model: Model) -> ModelVersion:
    try:
        client.create_registered_model(model.name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    source = f"{client.get_run(run_id).info.artifact_uri}/{FOLDER}"
    tags = {**model.tags, VALUE: str(model.value), "better": model.better}
    return client.create_model_version(model.name, source, run_id, tags=tags)
