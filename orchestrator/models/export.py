"""A trial's weights as an MLflow model: with a signature and an example, and without pickle."""

import importlib.metadata
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow.models import ModelSignature, infer_signature
from mlflow.types import Schema, TensorSpec

import tardis_core
from orchestrator.planning.plan import SweepPlan
from orchestrator.results.records import Records
from orchestrator.results.report import command_of
from orchestrator.results.weights import best_weights
from orchestrator.tracking.champion import ALIAS, MEASURED_ON, registered_name
from orchestrator.tracking.events import Event, Model
from tardis_core.serving.base import PREDICTORS, Predictor, load_predictor
from tardis_core.tasks.base import TASKS

CODE = Path(__file__).with_name("pyfunc.py")
PACKAGES = ("mlflow", "numpy", "pandas", "torch", "tqdm")


def offer_champion(records: Records, data: Any) -> list[Event]:
    """Export the best model of a sweep and offer it as champion of its task, if it can be served.

    Args:
        data: of the task, as the trials had it.

    Raises:
        OSError: if the storage of the sweep cannot be reached
    """
    plan = records.plan
    best = best_weights(records) if plan.task in PREDICTORS.names() else None
    if best is None:
        return []
    number, weights = best
    folder = weights.parent / "model"
    save(weights, folder)
    value = records.objective(number)
    assert value is not None, "the best trial has been validated"
    tags = _tags(records, number, data)
    return [
        Model(
            number,
            str(folder),
            registered_name(plan.task),
            value,
            plan.better,
            tags,
            _description(plan, number, value, tags),
            f"The best models of {plan.task} so far; `{ALIAS}` is the current one. Registered by "
            "sweeps of tardis-lab.",
        )
    ]


def _description(plan: SweepPlan, number: int, value: float, tags: Mapping[str, str]) -> str:
    """A model version in words, and the command that trains it again."""
    data = tags[MEASURED_ON].partition(",")[0]
    return (
        f"{tags['metric']} {value:.4g} on {data}, scale {plan.scale}: {plan.title(number)} of the "
        f"sweep {plan.name}. To train it again:\n\n```sh\n{tags['command']}\n```"
    )


def _tags(records: Records, number: int, data: Any) -> dict[str, str]:
    """The tags of the model version: data, metric, and where the model comes from."""
    plan, config = records.plan, records.trials[number].config()
    provenance = TASKS.get(plan.task).provenance(config.task_settings, data)
    name = f"{provenance.name} {provenance.sha256[:12]}".strip()
    settings = [
        f"{key}={value}" for key, value in config.settings().items() if key.startswith("task.")
    ]
    return {
        "data.real": str(provenance.real),
        MEASURED_ON: ", ".join([name, *settings]),
        "metric": f"valid_{plan.metric}",
        "scale": plan.scale,
        "sweep": plan.name,
        "trial": str(number),
        "command": command_of(records, number),
    }


def save(checkpoint: Path, folder: Path) -> None:
    """Write the model of a checkpoint file to a folder, and replace what is there."""
    predictor = load_predictor(checkpoint)
    shutil.rmtree(folder, ignore_errors=True)
    with warnings.catch_warnings(action="ignore"):  # about type hints, which arrays do not have
        mlflow.pyfunc.save_model(
            str(folder),
            python_model=str(CODE),
            artifacts={"checkpoint": str(checkpoint)},
            # The model brings the code that it was trained with.
            code_paths=[str(Path(tardis_core.__file__).parent)],
            signature=signature_of(predictor),
            input_example=predictor.example(),
            pip_requirements=[f"{name}=={importlib.metadata.version(name)}" for name in PACKAGES],
        )


def signature_of(predictor: Predictor) -> ModelSignature:
    """The types and shapes of input and output."""
    example = predictor.example()
    output = predictor.predict(example)
    signature = infer_signature(example, output, predictor.parameters or None)
    if isinstance(example, np.ndarray):
        signature.inputs, signature.outputs = _any_length(example), _any_length(output)
    return signature


def _any_length(array: np.ndarray[Any, Any]) -> Schema:
    """Sequences of any number of steps, not only that of the example."""
    _, steps, *channels = array.shape
    shape = (-1, -1, *channels) if channels else (-1, steps)
    return Schema([TensorSpec(array.dtype, shape)])
