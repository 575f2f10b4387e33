"""The precision of products: what PyTorch is told while a network is trained."""

import pytest
import torch

from tardis_core.training import loop
from tardis_core.training.loop import Trainer
from tardis_core.training.precision import mixed
from tests.support.tiny import tiny


def rounding() -> tuple[str, str]:
    return torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.rnn.fp32_precision


@pytest.mark.parametrize(("precision", "mode"), [("float32", "ieee"), ("tf32", "tf32")])
def test_products_of_both_passes_are_rounded_as_asked_and_no_others(monkeypatch, precision, mode):
    seen = []
    original = loop.objective

    def objective(*arguments):
        result = original(*arguments)
        seen.append(rounding())
        result.loss.register_hook(lambda _: seen.append(rounding()))
        return result

    monkeypatch.setattr(loop, "objective", objective)
    before = rounding()
    Trainer(tiny("copy", precision=precision), None).step()
    assert seen == [(mode, mode)] * 2
    assert rounding() == before


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_an_evaluation_rounds_nothing(monkeypatch, precision):
    """PyTorch would let cuDNN's LSTM, a baseline, round to TF32 and leave the others alone."""
    trainer, seen = Trainer(tiny("copy", precision=precision), None), []
    measure = trainer.task.evaluate

    def evaluate(*arguments):
        seen.append(rounding())
        return measure(*arguments)

    monkeypatch.setattr(trainer.task, "evaluate", evaluate)
    before = rounding()
    trainer.evaluate("valid")
    assert seen == [("ieee", "ieee")]
    assert rounding() == before


def test_tf32_is_float32_on_a_processor():
    losses = [Trainer(tiny("copy", precision=name), None).step() for name in ("float32", "tf32")]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_only_bfloat16_is_mixed_precision(precision):
    with mixed(precision, torch.device("cpu")):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == (torch.bfloat16 if precision == "bfloat16" else torch.float32)
