"""Copy and recall: vectors in, the probability of each bit out."""

from typing import Any

import numpy as np
import torch

from tardis_core.serving.base import PREDICTORS, Predictor, as_vectors
from tardis_core.tasks.base import TASKS


class BitsPredictor(Predictor):
    """Sequences of input vectors (sequence, step, channel) -> bits (sequence, step, bit)."""

    def example(self) -> np.ndarray:
        task: Any = TASKS.get(self.config.task)(self.config.task_settings, None, 1, seed=0)
        batch = task.make(self.config.task_settings.shortest, 2, np.random.default_rng(0))
        return batch.inputs.numpy().transpose(1, 0, 2)

    @torch.no_grad()
    def predict(self, inputs: Any, **parameters: Any) -> np.ndarray:
        inputs_BTD = as_vectors(inputs, self.network.encoder.inputs)
        inputs_TBD = torch.from_numpy(inputs_BTD.transpose(1, 0, 2).copy()).to(self.device)
        prediction, _ = self.network(inputs_TBD)
        return prediction.logits_TBO.sigmoid().transpose(0, 1).cpu().numpy()


PREDICTORS.register("copy")(BitsPredictor)
PREDICTORS.register("recall")(BitsPredictor)
