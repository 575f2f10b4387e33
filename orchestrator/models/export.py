"""A trial's weights as an MLflow model: with a signature, an example, and no pickle in it."""

import importlib.metadata
import shutil
import warnings
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow.models import ModelSignature, infer_signature
from mlflow.types import Schema, TensorSpec

import tardis_core
from tardis_core.serving.base import Predictor, load_predictor

CODE = Path(__file__).with_name("pyfunc.py")
PACKAGES = ("mlflow", "numpy", "pandas", "torch", "tqdm")


def save(checkpoint: Path, folder: Path) -> None:
    """Write the model of a checkpoint file to a folder; what is there is replaced."""
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
    """What goes in and what comes out."""
    example = predictor.example()
    made = infer_signature(example, predictor.predict(example), predictor.parameters or None)
    if isinstance(example, np.ndarray):
        made.inputs, made.outputs = _any_length(example), _any_length(predictor.predict(example))
    return made


def _any_length(array: np.ndarray[Any, Any]) -> Schema:
    """Sequences of any number of steps, not only that of the example."""
    _, steps, *channels = array.shape
    shape = (-1, -1, *channels) if channels else (-1, steps)
    return Schema([TensorSpec(array.dtype, shape)])
