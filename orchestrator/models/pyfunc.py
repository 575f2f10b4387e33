"""The code of a logged model, which MLflow runs when it loads one: nothing is unpickled."""

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

    # No type hints: MLflow would read them as a schema, and the signature is a better one.
    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        return self.predictor.predict(model_input, **(params or {}))


mlflow.models.set_model(ServedModel())
