"""Gradient accumulation: a batch in parts makes the update of the whole batch."""

import copy

import pytest
import torch

from tardis_core.build import load_data
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.training.loop import Trainer
from tests.support.tiny import settings, tiny

NO_NOISE = {"model.recurrent_dropout": 0.0, "model.dropout": 0.0}


def trainer(accumulate: int, task: str, model: str, batch: int = 6) -> Trainer:
    changed = {"training.accumulate": accumulate, "training.batch": batch, **NO_NOISE}
    config = make_config(task, model, None, "smoke", 0, settings(task, model) | changed)
    result = Trainer(config, load_data(config, None, "standin"))
    result.network.double()
    return result


def gradients(result: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.grad for name, value in result.network.named_parameters()}


@pytest.mark.parametrize("task", ["copy", "ptb", "snli"])
@pytest.mark.parametrize("parts", [2, 4, 6])
def test_the_gradient_of_the_parts_is_that_of_the_batch(task, parts):
    """Of a model without noise; sequences of different lengths, and text that goes on."""
    whole, result = trainer(1, task, "lstm"), trainer(parts, task, "lstm")
    for _ in range(3):
        assert whole.step() == pytest.approx(result.step(), rel=1e-5)
        ours, theirs = gradients(result), gradients(whole)
        for name, expected in theirs.items():
            torch.testing.assert_close(ours[name], expected, rtol=1e-5, atol=1e-9)
    for name, value in whole.network.state_dict().items():
        torch.testing.assert_close(result.network.state_dict()[name], value, rtol=1e-4, atol=1e-7)


def test_there_are_no_more_parts_than_sequences():
    whole, result = trainer(1, "copy", "lstm", batch=3), trainer(8, "copy", "lstm", batch=3)
    assert result.step() == pytest.approx(whole.step(), rel=1e-6)


@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
def test_models_with_noise_train_in_parts_and_resume_exactly(estimator):
    config = tiny("copy", "tardis", estimator, accumulate=2)
    one, other = Trainer(config, None), Trainer(config, None)
    for _ in range(2):
        one.step()
    other.restore(copy.deepcopy(one.state()))
    assert [one.step(), one.step()] == [other.step(), other.step()]


def test_at_least_one_part():
    with pytest.raises(UserError, match=r"training\.accumulate must be at least 1, not 0"):
        tiny(accumulate=0)
