"""The code of a logged model: MLflow runs this file when it loads one, and unpickles nothing."""

from pathlib import Path
from typing import Any

import mlflow
from mlflow.pyfunc import PythonModel

from tardis_core.serving.base import load_predictor

CHECKPOINT = "checkpoint"  # the artifact that holds the weights


class ServedModel(PythonModel):
    """A predictor of tardis_core behind MLflow's interface."""

    def load_context(self, context: Any) -> None:
        self.predictor = load_predictor(Path(context.artifacts[CHECKPOINT]))

    # MLflow takes type hints for a schema; the signature of the model is a better one.
    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        return self.predictor.predict(model_input, **(params or {}))


mlflow.models.set_model(ServedModel())
