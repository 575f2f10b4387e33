"""strokes: pens move, then digits are asked for, each answer the next input."""

import numpy as np
import pytest
import torch

from tardis_core.build import build_network, build_task, load_data
from tardis_core.config import make_config
from tardis_core.data.strokes import Digits
from tardis_core.tasks.strokes import BOS, CHANNELS, DIGIT, PEN, answer, make_batch

# Two digits: a 3 of two rows and a 7 of three; first rows are absolute positions.
DIGITS = Digits(
    rows=np.array([[9, 9, 0, 0], [0, 0, 1, 1], [4, 5, 0, 0], [1, -1, 0, 0], [0, 0, 1, 1]], np.int8),
    ends=np.array([0, 2, 5]),
    labels=np.array([3, 7], np.uint8),
)


def test_a_batch_by_hand():
    batch = make_batch(DIGITS, np.array([[0, 1], [0, 0]]))
    assert batch.inputs.shape == (7, 2, CHANNELS)
    pen = batch.inputs[:, 0, :PEN].tolist()
    assert pen[:5] == [[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0], [1, -1, 0, 0], [0, 0, 1, 1]]
    assert batch.inputs[5, :, BOS].tolist() == [1, 1]
    assert batch.inputs[6, 0, DIGIT + 3] == 1  # the digit before, fed back
    assert batch.inputs[5:].sum() == 4
    assert batch.targets[5:].T.tolist() == [[3, 7], [3, 3]]
    assert batch.scored_TB[:, 0].tolist() == [False] * 5 + [True] * 2
    assert batch.mask_TB[:, 1].tolist() == [True] * 4 + [False] + [True] * 2


@pytest.fixture(scope="module")
def task():
    config = make_config("strokes", scale="smoke", overrides={"task.digits": 3})
    return build_task(config, load_data(config, source="standin"))


def test_the_sequences_of_a_split_are_the_same_for_every_seed(task):
    other = type(task)(task.config, task.data, 8, seed=99)
    np.testing.assert_array_equal(task._digits_of("valid"), other._digits_of("valid"))
    assert not torch.equal(task.train_batch(0).targets[-1][:8], other.train_batch(0).targets[-1])


def test_answers_are_fed_back_one_by_one(task):
    """Feeding the model its own answers as if they were true gives the same answers again."""
    config = make_config("strokes", scale="smoke", overrides={"task.digits": 3})
    network = build_network(config, task.signature).double()
    batch = make_batch(task.data.valid, task._digits_of("valid")[:6])
    answers = answer(network, batch, 3)
    own = batch.inputs.clone()
    own[-2:, :, DIGIT:] = torch.eye(10)[answers[:-1]]
    prediction, _ = network(own, None, batch.mask_TB)
    assert torch.equal(prediction.logits_TBO[-3:].argmax(-1), answers)


def test_error_counts_digits(task):
    config = make_config("strokes", "lstm", scale="smoke", overrides={"task.digits": 3})
    network = build_network(config, task.signature)
    with torch.no_grad():
        network.head.W_o.weight.zero_()
        network.head.W_o.bias.copy_(torch.eye(10)[4])  # always 4
    labels = task.data.valid.labels[task._digits_of("valid")]
    measured = task.evaluate(network, "valid")["error"]
    assert measured == pytest.approx(100 * np.mean(labels != 4))
