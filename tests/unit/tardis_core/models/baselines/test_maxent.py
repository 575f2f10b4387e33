"""Maximum-entropy n-grams against a slow program from the definition, and as a command."""

import json
import math

import numpy as np
import pytest
import torch

from tardis_core.errors import UserError
from tardis_core.models.baselines.maxent import BATCH, EPSILON, MaxEnt, MaxEntConfig
from tardis_core.ngram import TRAINING, main

TEXT = np.random.default_rng(0).integers(0, 4, 300)


class Slow:
    """From the definition, with a dictionary of contexts and no hashes."""

    def __init__(self, text, symbols, order, epochs, rate, before):
        self.text, self.symbols, self.order, self.before = list(text), symbols, order, before
        self.theta, self.squares = {}, {}
        rng, total, done = np.random.default_rng(0), len(text) * epochs, 0
        for _ in range(epochs):
            visited = rng.permutation(len(text))
            for start in range(0, len(text), BATCH):
                places = visited[start : start + BATCH]
                self.update(places, rate * (1 - done / total))
                done += len(places)

    def contexts(self, text, place):
        padded = [self.before] * (self.order - 1) + list(text[:place])
        return [tuple(padded[len(padded) - n :]) for n in range(self.order)]

    def probabilities(self, contexts):
        zeros = np.zeros(self.symbols)
        logits = sum(self.theta.get(context, zeros) for context in contexts)
        return np.exp(logits) / np.exp(logits).sum()

    def update(self, places, rate):
        steps = []
        for place in places:
            contexts = self.contexts(self.text, place)
            gradient = np.eye(self.symbols)[self.text[place]] - self.probabilities(contexts)
            steps.append((contexts, gradient))
        for contexts, gradient in steps:
            for context in contexts:
                known = self.squares.get(context, EPSILON)
                self.squares[context] = known + (gradient**2).mean()
        for contexts, gradient in steps:
            for context in contexts:
                step = rate / math.sqrt(self.squares[context]) * gradient
                self.theta[context] = self.theta.get(context, np.zeros(self.symbols)) + step

    def nats(self, text):
        parts = [self.probabilities(self.contexts(text, n))[text[n]] for n in range(len(text))]
        return -np.log(parts)


@pytest.mark.parametrize("order", [1, 3])
def test_it_is_the_definition(order):
    config = MaxEntConfig(order, rows=2**20, epochs=2, rate=0.3)
    model = MaxEnt(TEXT, 4, config, before=2, dtype=torch.float64)
    slow = Slow(TEXT, 4, order, 2, 0.3, 2)
    other = np.random.default_rng(1).integers(0, 4, 40)
    np.testing.assert_allclose(model.nats(other), slow.nats(other), rtol=0, atol=1e-10)
    assert len(model) == 4 * len(slow.theta)


def test_probabilities_sum_to_one_and_training_helps():
    text = np.tile([0, 1, 2], 200)
    model = MaxEnt(text, 4, MaxEntConfig(3, rows=512, epochs=2))
    after = [math.exp(-model.nats(np.array([0, 1, symbol]))[-1]) for symbol in range(4)]
    assert sum(after) == pytest.approx(1, abs=1e-6)
    assert after[2] > 0.9


def test_contexts_that_share_a_row_still_give_a_model():
    crowded, spacious = (
        MaxEnt(TEXT, 4, MaxEntConfig(4, rows=rows, epochs=1)) for rows in (2, 2**16)
    )
    assert crowded.nats(TEXT).mean() > spacious.nats(TEXT).mean()
    assert np.isfinite(crowded.nats(TEXT)).all()


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ({"order": 0}, "order must be at least 1, not 0"),
        ({"rows": 0}, "rows must be at least 1, not 0"),
        ({"rate": 0.0}, "rate must be positive, not 0.0"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_rule(values, rule):
    with pytest.raises(UserError, match=rule):
        MaxEntConfig(**values)


def test_the_command_trains_it(capsys):
    options = ["--model", "maxent", "--orders", "2", "--epochs", "1", "--rows", "4096"]
    assert main(["--data", "standin", *options, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["orders"]
    assert row["valid_bpc"] < math.log2(50) - 1
    assert main(["--model", "maxent", "--epochs", "0"]) == 2
    assert "epochs must be at least 1, not 0" in capsys.readouterr().err


def test_the_help_of_the_command_tells_the_true_defaults():
    for name, (_, text) in TRAINING.items():
        assert f"(default: {getattr(MaxEntConfig(), name)})" in text
