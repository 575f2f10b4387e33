"""The interface of a predictor: a trained network with inputs and outputs for users."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from tardis_core.config import Config
from tardis_core.errors import UserError, require
from tardis_core.models.network import Network
from tardis_core.registry import Registry
from tardis_core.training.run_folder import load_checkpoint, load_network


class Predictor(ABC):
    """The interface; `load_predictor` makes one from a checkpoint."""

    parameters: ClassVar[dict[str, Any]] = {}  # keyword arguments of `predict` with their defaults

    def __init__(self, config: Config, network: Network, vocabulary: list[str]) -> None:
        self.config, self.network, self.vocabulary = config, network, vocabulary

    @abstractmethod
    def example(self) -> Any:
        """An input that `predict` takes: a table, or an array with the sequences along axis 0."""

    @abstractmethod
    def predict(self, inputs: Any, **parameters: Any) -> Any:
        """The predictions of the model, one row per input."""

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device


def as_vectors(inputs: Any, width: int) -> np.ndarray:
    """Sequences of vectors, BTD, refused where they are none."""
    rule = f"inputs must be numbers in the shape (sequences, steps, {width}), at least one of each"
    try:
        inputs_BTD = np.asarray(inputs, np.float32)
    except (TypeError, ValueError) as error:
        raise UserError(f"{rule}: {error}") from error
    shape = inputs_BTD.shape
    require(len(shape) == 3 and shape[2] == width and 0 not in shape, f"{rule}, not {shape}")
    return inputs_BTD


def as_texts(inputs: Any, *columns: str) -> list[list[str]]:
    """The texts of each of these columns of a table, refused where there are none."""
    frame = pd.DataFrame(inputs)
    require(
        set(columns) <= set(frame) and len(frame) > 0,
        f"inputs must be a table with the columns {', '.join(columns)} and at least one row, not "
        f"{len(frame)} rows with the columns {', '.join(map(str, frame)) or 'none'}",
    )
    return [[str(text) for text in frame[column]] for column in columns]


PREDICTORS: Registry[type[Predictor]] = Registry("predictor", "tardis_core.serving")


def load_predictor(path: Path) -> Predictor:
    """The predictor of a checkpoint file, on the CPU."""
    values, config = load_checkpoint(path)
    network = load_network(values, config, path)
    return PREDICTORS.get(config.task)(config, network, values["vocabulary"])
