"""Natural language inference: two sentences in, how they relate out."""

from typing import Any

import numpy as np
import pandas as pd
import torch

from tardis_core.data import snli
from tardis_core.serving.base import PREDICTORS, Predictor, as_texts
from tardis_core.tasks.snli import make_batch


@PREDICTORS.register("snli")
class PairPredictor(Predictor):
    """Premises and hypotheses -> a label, and the probability of each label."""

    def example(self) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "premise": ["a man is sleeping .", "two dogs run in the snow ."],
                "hypothesis": ["a man is awake .", "there are dogs outside ."],
            }
        )

    @torch.no_grad()
    def predict(self, inputs: Any, **parameters: Any) -> pd.DataFrame:
        premises, hypotheses = as_texts(inputs, "premise", "hypothesis")
        numbers = {word: number for number, word in enumerate(self.vocabulary)}
        pairs = snli.Pairs.unlabelled(
            [self._ids(text, numbers) for text in premises],
            [self._ids(text, numbers) for text in hypotheses],
        )
        batch = make_batch(pairs, np.arange(len(pairs))).to(self.device)
        prediction, _ = self.network(batch.inputs, None, batch.mask_TB)
        p_BO = torch.softmax(prediction.logits_TBO[-1], dim=-1).cpu().numpy()
        labels = np.array(snli.LABELS)[p_BO.argmax(1)]
        return pd.DataFrame({"label": labels, **dict(zip(snli.LABELS, p_BO.T, strict=True))})

    @staticmethod
    def _ids(text: str, numbers: dict[str, int]) -> list[int]:
        return [numbers.get(word, snli.UNK) for word in snli.tokenize(text)]
