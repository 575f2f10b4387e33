"""Pen strokes: the movements of several digits in, the digits out."""

from typing import Any

import numpy as np
import torch

from tardis_core.serving.base import PREDICTORS, Predictor, as_vectors
from tardis_core.tasks.base import Batch
from tardis_core.tasks.strokes import BOS, CHANNELS, PEN, answer


@PREDICTORS.register("strokes")
class DigitsPredictor(Predictor):
    """Movements (sequence, step, [dx, dy, eos, eod]) -> digits (sequence, digit).

    Sequences that end earlier are filled up with zeros; each must have the number of digits that
    the model was trained on.
    """

    def example(self) -> np.ndarray:
        one = np.array([[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 1, 1, 1]], np.float32)
        return np.tile(one, (self.config.task_settings.digits, 1))[None]

    def predict(self, inputs: Any, **parameters: Any) -> np.ndarray:
        pen_BTC = as_vectors(inputs, PEN)
        digits = self.config.task_settings.digits
        return answer(self.network, self._batch(pen_BTC, digits), digits).T.numpy()

    @staticmethod
    def _batch(pen_BTC: np.ndarray, digits: int) -> Batch:
        count, asked, _ = pen_BTC.shape
        inputs = np.zeros((asked + digits, count, CHANNELS), np.float32)
        inputs[:asked, :, :PEN] = pen_BTC.transpose(1, 0, 2)
        inputs[asked, :, BOS] = 1
        # A sequence lasts until the pen leaves the last digit.
        ends = pen_BTC[:, :, 3] > 0
        last_B = asked - 1 - ends[:, ::-1].argmax(1)
        steps = np.arange(asked + digits)[:, None]
        mask = (steps <= last_B) | (steps >= asked)
        nothing = torch.zeros(mask.shape, dtype=torch.int64)
        return Batch(
            torch.from_numpy(inputs), nothing, torch.zeros(mask.shape), torch.from_numpy(mask)
        )
