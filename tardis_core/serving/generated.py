"""Generated tasks: sequences in, the probability of each bit or class, or a number, out."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tardis_core.errors import UserError, require
from tardis_core.serving.base import PREDICTORS, Predictor, as_vectors
from tardis_core.tasks.base import TASKS


class GeneratedPredictor(Predictor):
    """Sequences of input vectors (sequence, step, channel) -> outputs (sequence, step, output)."""

    def example(self) -> np.ndarray:
        task: Any = TASKS.get(self.config.task)(self.config.task_settings, None, 1, seed=0)
        batch = task.make(self.config.task_settings.shortest, 2, np.random.default_rng(0))
        return batch.inputs.transpose(0, 1).contiguous().numpy()

    @torch.no_grad()
    def predict(self, inputs: Any, **parameters: Any) -> np.ndarray:
        inputs_TB = torch.from_numpy(self.as_inputs(inputs)).transpose(0, 1).contiguous()
        prediction, _ = self.network(inputs_TB.to(self.device))
        return self.outputs(prediction.logits_TBO).transpose(0, 1).cpu().numpy()

    def as_inputs(self, inputs: Any) -> np.ndarray:
        """What users have, as the network takes it, refused where it is something else."""
        return as_vectors(inputs, self.network.encoder.inputs)

    def outputs(self, logits_TBO: Tensor) -> Tensor:
        """What users get of the network's logits."""
        return logits_TBO


class BitsPredictor(GeneratedPredictor):
    """The probability of each bit."""

    def outputs(self, logits_TBO: Tensor) -> Tensor:
        return logits_TBO.sigmoid()


class SymbolsPredictor(GeneratedPredictor):
    """Symbols (sequence, step) -> the probability of each class (sequence, step, class)."""

    def as_inputs(self, inputs: Any) -> np.ndarray:
        return as_symbols(inputs, self.network.encoder.inputs)

    def outputs(self, logits_TBO: Tensor) -> Tensor:
        return logits_TBO.softmax(-1)


def as_symbols(inputs: Any, count: int) -> np.ndarray:
    """Sequences of symbols, BT, refused where they are none."""
    rule = f"inputs must be whole numbers from 0 to {count - 1} in the shape (sequences, steps)"
    try:
        inputs_BT = np.asarray(inputs, np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{rule}: {error}") from error
    shape = inputs_BT.shape
    require(len(shape) == 2 and 0 not in shape, f"{rule}, at least one of each, not {shape}")
    low, high = inputs_BT.min(), inputs_BT.max()
    require(low >= 0 and high < count, f"{rule}, not from {low} to {high}")
    return inputs_BT


for _task in ("copy", "recall", "repeat-copy", "priority-sort"):
    PREDICTORS.register(_task)(BitsPredictor)
for _task in ("mqar", "selective-copy"):
    PREDICTORS.register(_task)(SymbolsPredictor)
PREDICTORS.register("adding")(GeneratedPredictor)
