"""Predictors say what the network says, for the inputs that people have."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from tardis_core.build import build_task, load_data
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.serving.base import PREDICTORS, load_predictor
from tardis_core.tasks.base import TASKS
from tardis_core.tasks.snli import make_batch as make_pairs
from tardis_core.tasks.strokes import PEN, answer
from tardis_core.tasks.strokes import make_batch as make_digits
from tardis_core.training import checkpoint
from tardis_core.training.loop import Trainer


@pytest.fixture(scope="module")
def trained_predictor(tmp_path_factory):
    """(predictor, task) of every task, after two updates."""

    def make(name):
        config = make_config(name, scale="smoke", overrides={"training.updates": 2})
        data = load_data(config, None, "standin")
        trainer = Trainer(config, data)
        trainer.step()
        trainer.step()
        path = tmp_path_factory.mktemp(name) / "best.pt"
        checkpoint.save(path, trainer.model_state())
        return load_predictor(path), build_task(config, data)

    return make


def test_every_task_has_a_predictor():
    assert PREDICTORS.names() == TASKS.names()


@pytest.mark.parametrize("name", TASKS.names())
def test_a_predictor_takes_its_own_example(trained_predictor, name):
    predictor, _ = trained_predictor(name)
    inputs = predictor.example()
    assert len(predictor.predict(inputs)) == len(inputs)


def test_bits_per_symbol_are_those_of_the_network(trained_predictor):
    predictor, task = trained_predictor("ptb")
    text = "the cat"
    ids = task.data.encode("\n" + text).astype(np.int64)
    with torch.no_grad():
        prediction, _ = predictor.network(torch.from_numpy(ids[:, None]))
    log_p = torch.log_softmax(prediction.logits_TBO[:, 0], -1)
    nats = -sum(float(log_p[t, ids[t + 1]]) for t in range(len(text)))
    row = predictor.predict(pd.DataFrame({"text": [text]}), length=0)
    assert row["bits_per_symbol"][0] == pytest.approx(nats / len(text) / math.log(2), rel=1e-5)
    assert row["continuation"][0] == ""


def test_a_continuation_follows_the_seed_and_near_zero_the_likeliest_symbol(trained_predictor):
    predictor, task = trained_predictor("ptb")
    frame = pd.DataFrame({"text": ["the cat"]})

    def continuation(**parameters):
        return predictor.predict(frame, length=30, **parameters)["continuation"][0]

    assert continuation(seed=1) == continuation(seed=1) != continuation(seed=2)
    assert continuation(temperature=1e-4, seed=1) == continuation(temperature=1e-4, seed=2)
    with torch.no_grad():
        ids = torch.from_numpy(task.data.encode("\nthe cat").astype(np.int64)[:, None])
        first = int(predictor.network(ids)[0].logits_TBO[-1, 0].argmax())
    assert continuation(temperature=1e-4)[0] == task.vocabulary[first]


def test_a_text_with_an_unknown_symbol_is_refused(trained_predictor):
    predictor, _ = trained_predictor("ptb")
    with pytest.raises(UserError, match="is not in the training text"):
        predictor.predict(pd.DataFrame({"text": ["\u2603"]}))


@pytest.mark.parametrize("parameters", [{"temperature": 0.0}, {"length": -1}])
def test_impossible_parameters_are_refused(trained_predictor, parameters):
    predictor, _ = trained_predictor("ptb")
    with pytest.raises(UserError, match="must"):
        predictor.predict(pd.DataFrame({"text": ["a"]}), **parameters)


def test_pairs_get_the_label_that_the_task_would_give(trained_predictor):
    predictor, task = trained_predictor("snli")
    pairs = task.data.valid
    words = [[pairs.pair(i)[side] for i in range(5)] for side in (0, 1)]
    texts = [[" ".join(task.vocabulary[w] for w in each) for each in side] for side in words]
    table = predictor.predict(pd.DataFrame({"premise": texts[0], "hypothesis": texts[1]}))
    batch = make_pairs(pairs, np.arange(5))
    with torch.no_grad():
        prediction, _ = predictor.network(batch.inputs, None, batch.mask_TB)
    expected = torch.softmax(prediction.logits_TBO[-1], -1).numpy()
    assert table.drop(columns="label").to_numpy() == pytest.approx(expected, abs=1e-5)


def test_digits_are_those_that_the_task_would_answer(trained_predictor):
    predictor, task = trained_predictor("strokes")
    digits = task.config.digits
    chosen = np.arange(3 * digits).reshape(3, digits)
    batch = make_digits(task.data.valid, chosen)
    pen = batch.inputs[:-digits, :, :PEN].numpy().transpose(1, 0, 2)
    expected = answer(predictor.network, batch, digits).T.numpy()
    assert (predictor.predict(pen) == expected).all()


@pytest.mark.parametrize("name", ["copy", "strokes"])
def test_a_wrong_shape_is_refused_with_the_right_one(trained_predictor, name):
    predictor, _ = trained_predictor(name)
    channels = predictor.example().shape[-1]
    wrong = [(3, 5), (2, 3, channels + 1), (0, 3, channels), (2, 0, channels)]
    for inputs in [*(np.zeros(shape) for shape in wrong), [[[1.0] * channels], []], "text"]:
        with pytest.raises(UserError, match=r"must be numbers in the shape \(sequences, steps, "):
            predictor.predict(inputs)


@pytest.mark.parametrize("name", ["ptb", "snli"])
def test_a_table_without_its_columns_or_rows_is_refused_with_their_names(trained_predictor, name):
    predictor, _ = trained_predictor(name)
    names = list(predictor.example())
    for table in (pd.DataFrame({"words": ["a"]}), pd.DataFrame({column: [] for column in names})):
        with pytest.raises(UserError, match=f"the columns {', '.join(names)} and at least one row"):
            predictor.predict(table)
