"""The generated tasks beside copy and recall: batches decoded by the rules of their papers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tardis_core.errors import UserError
from tardis_core.models.network import Prediction
from tardis_core.tasks import adding, mqar, selective_copy
from tardis_core.tasks.base import TASKS, Batch, Metric


def task(name: str, seed: int = 0, batch: int = 4, **of_task: int):
    kind = TASKS.get(name)
    return kind(kind.Config(**of_task), None, batch, seed)


def decode_priority_sort(batch: Batch, column: int) -> torch.Tensor:
    """The answer, from the inputs alone."""
    inputs = batch.inputs[:, column]
    (end,) = inputs[:, -1].nonzero().flatten().tolist()
    by_priority = sorted(inputs[:end].tolist(), key=lambda vector: -vector[-2])
    return torch.tensor(by_priority)[: -(-4 * end // 5), :-2]


def decode_mqar(batch: Batch, column: int) -> torch.Tensor:
    answers, pairs, key = [], {}, None
    for symbol in batch.inputs[:, column].tolist():
        if symbol >= mqar.FIRST_VALUE:
            pairs[key] = symbol - mqar.FIRST_VALUE
        elif symbol in pairs:
            answers.append(pairs[symbol])
        key = symbol
    return torch.tensor(answers)


def decode_selective_copy(batch: Batch, column: int) -> torch.Tensor:
    shown = batch.inputs[:, column].tolist()
    tokens = [symbol for symbol in shown if symbol < selective_copy.TOKENS]
    assert shown[-len(tokens) :] == [selective_copy.ASK] * len(tokens)
    assert shown.count(selective_copy.ASK) == len(tokens)
    return torch.tensor(tokens)


def decode_adding(batch: Batch, column: int) -> torch.Tensor:
    numbers, marked = batch.inputs[:, column].T
    first, second = marked.nonzero().flatten().tolist()
    assert first < len(numbers) // 2 <= second
    return (numbers[first] + numbers[second]).view(1, 1)


def decode_repeat_copy(batch: Batch, column: int) -> torch.Tensor:
    """With five repeats at most."""
    inputs = batch.inputs[:, column]
    (end,) = inputs[:, 9].nonzero().flatten().tolist()
    repeats = round(5 * inputs[end, 9].item())
    answer = torch.zeros(repeats * (end - 1) + 1, 9)
    answer[:-1, :8] = inputs[1:end, :8].repeat(repeats, 1)
    answer[-1, 8] = 1
    return answer


DECODERS = {
    "repeat-copy": (decode_repeat_copy, {"repeats": 5}),
    "priority-sort": (decode_priority_sort, {}),
    "mqar": (decode_mqar, {"steps": 20}),
    "selective-copy": (decode_selective_copy, {"steps": 12}),
    "adding": (decode_adding, {}),
}


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=20)
@given(length=st.integers(2, 15), count=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_the_targets_are_what_the_inputs_ask_for(name, length, count, seed):
    decode, of_task = DECODERS[name]
    batch = task(name, **of_task).make(length, count, np.random.default_rng(seed))
    for column in range(count):
        scored = batch.scored_TB[:, column]
        torch.testing.assert_close(batch.targets[scored, column], decode(batch, column))


def test_training_on_repeat_copy_meets_every_number_of_repeats_and_evaluation_the_greatest():
    built = task("repeat-copy", longest=2, repeats=5)
    batches = [built.train_batch(number) for number in range(40)]
    for batch in batches:
        assert torch.equal(batch.targets[batch.scored_TB[:, 0], 0], decode_repeat_copy(batch, 0))
    shown = {round(5 * batch.inputs[:, 0, 9].max().item()) for batch in batches}
    assert shown == {1, 2, 3, 4, 5}
    assert len(built.examples("test", [0]).inputs) == 2 + 2 + 5 * 2 + 1


def test_mqar_asks_for_every_key_once_and_anywhere():
    batch = task("mqar", steps=16).make(3, 500, np.random.default_rng(0))
    assert batch.inputs.shape == (16, 500)
    assert (batch.scored_TB.sum(0) == 3).all()
    keys = batch.inputs[0:6:2]
    assert all(len(set(column.tolist())) == 3 for column in keys.T)
    asked = batch.scored_TB.double().mean(1)
    assert not asked[:6].any()
    torch.testing.assert_close(asked[6:], torch.full((10,), 0.3).double(), rtol=0, atol=0.08)


def test_a_sequence_of_mqar_grows_with_many_pairs_and_its_curve_ends_at_the_number_of_keys():
    built = task("mqar", longest=100, steps=8, valid_sequences=2)
    assert len(built.make(5, 1, np.random.default_rng(0)).inputs) == 20
    (curve,) = built.details(Constant(mqar.VALUES), "valid")
    assert max(curve.x) <= mqar.KEYS
    assert curve.name == "accuracy_by_length"


class Constant(torch.nn.Module):
    """Stands in for a network: always says the same."""

    memory_head = None

    def __init__(self, outputs: int, value: float = 0.0) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.full((outputs,), value))

    def forward(self, inputs, state=None, mask_TB=None, asked_TB=None):
        logits = self.logits.expand(*inputs.shape[:2], -1)
        return Prediction(logits, None, None, inputs), None


@pytest.mark.parametrize(
    ("name", "metric", "guess", "tolerance"),
    [
        ("repeat-copy", "bce", np.log(2), 1e-6),
        ("priority-sort", "bce", np.log(2), 1e-6),
        ("mqar", "accuracy", 100 / 64, 0.5),
        ("selective-copy", "accuracy", 100 / 14, 1.0),
    ],
)
def test_a_guess_is_worth_what_the_pages_say(name, metric, guess, tolerance):
    built = task(name, longest=6)
    value = built.evaluate(Constant(built.signature.outputs), "valid")
    assert value == {metric: pytest.approx(guess, abs=tolerance)}
    assert not built.metric.solves(value[metric])


def test_always_answering_one_gives_the_variance_of_the_sum():
    built = task("adding", longest=10, test_sequences=4096)
    value = built.evaluate(Constant(1, 1.0), "test")["mse"]
    assert value == pytest.approx(1 / 6, abs=0.01)
    assert not adding.Adding.metric.solves(value)


def test_a_metric_says_what_is_solved():
    assert Metric("a", "", "lower", 0.1).solves(0.05)
    assert not Metric("a", "", "lower", 0.1).solves(0.1)
    assert Metric("a", "", "higher", 99.0).solves(99.5)
    assert not Metric("a", "", "higher").solves(100.0)


@pytest.mark.parametrize("name", DECODERS)
def test_every_step_has_a_label(name):
    batch = task(name, longest=5).examples("valid", [0])
    labels = task(name, longest=5).labels(batch, 0)
    assert len(labels) == len(batch.inputs)
    assert all(labels)


@pytest.mark.parametrize(
    ("name", "values", "rule"),
    [
        ("repeat-copy", {"repeats": 0}, "task.repeats must be at least 1, not 0"),
        ("mqar", {"longest": 129}, "task.longest must be at most 128, the number of keys, not 129"),
        ("mqar", {"steps": 0}, "task.steps must be at least 1, not 0"),
        ("selective-copy", {"steps": 0}, "task.steps must be at least 1, not 0"),
        ("adding", {"shortest": 1}, "task.shortest must be at least 2"),
    ],
)
def test_a_wrong_size_is_refused_with_the_rule(name, values, rule):
    with pytest.raises(UserError) as error:
        TASKS.get(name).Config(**values)
    assert rule in str(error.value)
