"""What is measured: a training step, an evaluation or one symbol, for a model of a given size."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from tardis_core.estimators.base import ESTIMATORS
from tardis_core.models.base import MODELS, SequenceModel
from tardis_core.models.controller import LstmConfig
from tardis_core.models.tardis import MemoryConfig, TardisConfig


class Size(NamedTuple):
    """Time, batch, input, hidden, cells, content and address; attention is a quarter of hidden."""

    T: int
    B: int
    D: int
    H: int
    K: int
    C: int
    A: int


SIZES = {
    "s": Size(42, 32, 10, 120, 16, 32, 4),
    "m": Size(150, 64, 50, 256, 20, 64, 8),
    "l": Size(150, 128, 50, 512, 20, 64, 8),
    "xl": Size(150, 32, 50, 1000, 20, 100, 8),
}


class Case(NamedTuple):
    """A model with its backend."""

    kind: str  # an estimator of TARDIS, "lstm" (our baseline) or "nn.LSTM" (PyTorch)
    backend: str = "native"
    norm: bool = False  # with layer normalisation and a recurrent dropout of 0.1

    @property
    def name(self) -> str:
        """The heading of its column."""
        parts = [self.kind] if self.kind == "nn.LSTM" else [self.kind, self.backend]
        return ", ".join([*parts, *(["norm"] if self.norm else [])])


TORCH_LSTM = Case("nn.LSTM")


def build(case: Case, size: Size) -> SequenceModel:
    """The model of a case, other than nn.LSTM."""
    torch.manual_seed(0)
    dropout = 0.1 if case.norm else 0.0
    options: dict[str, Any] = {
        "layer_norm": case.norm,
        "recurrent_dropout": dropout,
        "backend": case.backend,
    }
    if case.kind == "lstm":
        return MODELS.get("lstm")(size.D, LstmConfig(hidden=size.H, **options), None, None)
    estimator = ESTIMATORS.get(case.kind)
    return MODELS.get("tardis")(
        size.D,
        TardisConfig(hidden=size.H, **options),
        MemoryConfig(cells=size.K, address=size.A, content=size.C),
        estimator(estimator.Config(), size.D, size.H),
    )


def _clear_gradients(weights: list[nn.Parameter]) -> None:
    for each in weights:
        each.grad = None


def training_step(
    case: Case, size: Size, change: Callable[[SequenceModel], None] = lambda model: None
) -> Callable[[], None]:
    """Forward, including the noise, and backward for one batch.

    Args:
        change: what is done to a model of ours before it is measured.
    """
    x_TBD = torch.randn(size.T, size.B, size.D)
    if case.kind == "nn.LSTM":
        lstm = nn.LSTM(size.D, size.H)
        lstm_weights = list(lstm.parameters())

        def torch_step() -> None:
            _clear_gradients(lstm_weights)
            lstm(x_TBD)[0].sum().backward()

        return torch_step
    model = build(case, size)
    change(model)
    weights = list(model.parameters())
    generator = torch.Generator(x_TBD.device).manual_seed(0)
    advantage_TBK = torch.randn(size.T, size.B, size.K) / (size.T * size.B)

    def model_step() -> None:
        _clear_gradients(weights)
        hidden, _ = model(x_TBD, noise=model.draw_noise(x_TBD, generator))
        loss = hidden.h_TBH.sum()
        if case.kind == "reinforce":  # its gradient comes through the logits
            loss = loss + (hidden.reads.pi_TBK * advantage_TBK).sum()
        loss.backward()

    return model_step


def evaluation(case: Case, size: Size) -> Callable[[], None]:
    """Forward only, without gradients or noise."""
    x_TBD = torch.randn(size.T, size.B, size.D)
    model = nn.LSTM(size.D, size.H) if case.kind == "nn.LSTM" else build(case, size)

    def once() -> None:
        with torch.inference_mode():
            model(x_TBD)

    return once


def generation(case: Case, size: Size, symbols: int = 50) -> Callable[[], None]:
    """One sequence, symbol by symbol, with the state passed from call to call."""
    x_1BD = torch.randn(1, 1, size.D)
    model = nn.LSTM(size.D, size.H) if case.kind == "nn.LSTM" else build(case, size)

    def some() -> None:
        state = None
        with torch.inference_mode():
            for _ in range(symbols):
                _, state = model(x_1BD, state)

    return some
