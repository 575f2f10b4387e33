"""Character-level text: how likely a text is, and how it may continue."""

import math
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from tardis_core.data.ptb import encode
from tardis_core.errors import require
from tardis_core.models.network import Network
from tardis_core.serving.base import PREDICTORS, Predictor, as_texts
from tardis_core.tasks.ptb import END_OF_LINE


@PREDICTORS.register("ptb")
class TextPredictor(Predictor):
    """Texts -> bits per symbol of each, and a continuation."""

    parameters: ClassVar = {"length": 80, "temperature": 0.7, "seed": 0}

    def example(self) -> pd.DataFrame:
        return pd.DataFrame({"text": ["the company said ", "in new york "]})

    @torch.no_grad()
    def predict(self, inputs: Any, **parameters: Any) -> pd.DataFrame:
        chosen = {**self.parameters, **parameters}
        (texts,) = as_texts(inputs, "text")
        generator = torch.Generator().manual_seed(int(chosen["seed"]))
        rows = []
        for text in texts:
            logits_O, state, bits = self._read(text)
            symbols = generate(
                self.network, logits_O, state, chosen["length"], chosen["temperature"], generator
            )
            continuation = "".join(self.vocabulary[each] for each in symbols)
            rows.append({"text": text, "bits_per_symbol": bits, "continuation": continuation})
        return pd.DataFrame(rows)

    def _read(self, text: str) -> tuple[Tensor, Any, float]:
        """Run over a text as over the first line of a corpus.

        Returns:
            the logits of the symbol after it, the state there, and bits per symbol of the text
        """
        ids = encode(text, self.vocabulary, "the text").astype(np.int64)
        before = self.vocabulary.index(END_OF_LINE)
        inputs_T1 = torch.from_numpy(np.r_[before, ids][:, None]).to(self.device)
        prediction, state = self.network(inputs_T1)
        logits_TO = prediction.logits_TBO[:, 0]
        nats = F.cross_entropy(logits_TO[:-1], inputs_T1[1:, 0]) if len(ids) else torch.tensor(0.0)
        return logits_TO[-1], state, float(nats) / math.log(2)


@torch.no_grad()
def generate(
    network: Network,
    logits_O: Tensor,
    state: Any,
    length: int,
    temperature: float,
    generator: torch.Generator,
) -> list[int]:
    """Symbols drawn one after the other, each the input of the next.

    Args:
        logits_O: of the first of them.
        state: of the network before it.
        temperature: 1 draws as the model believes, towards 0 only the likeliest remain.
        generator: on the CPU, so that a seed gives the same text on every device.
    """
    require(temperature > 0, f"the temperature must be above 0, not {temperature}")
    require(length >= 0, f"the length must not be negative: {length}")
    symbols: list[int] = []
    for _ in range(length):
        p_O = torch.softmax(logits_O.float().cpu() / temperature, dim=-1)
        symbols.append(int(torch.multinomial(p_O, 1, generator=generator)))
        prediction, state = network(torch.tensor([[symbols[-1]]], device=logits_O.device), state)
        logits_O = prediction.logits_TBO[0, 0]
    return symbols
