"""Copy and recall: batches by value, decoded by rules of the papers, and where they come from."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tardis_core.build import build_network
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.models.network import Prediction
from tardis_core.tasks.base import TASKS, Batch
from tardis_core.tasks.copy import Copy
from tardis_core.tasks.recall import Recall

BOTH = ["copy", "recall"]


def task(name: str, seed: int = 0, batch: int = 4, updates: int = 0, **of_task: float):
    kind = TASKS.get(name)
    built = kind(kind.Config(**of_task), None, batch, seed)
    built.updates = updates
    return built


def same(one: Batch, other: Batch) -> bool:
    return all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(one, other, strict=True)
    )


class Scripted:
    """Stands in for a random generator: gives what it was told to give."""

    def __init__(self, *answers: list) -> None:
        self.answers = list(answers)

    def integers(self, low: int, high: int, size) -> np.ndarray:
        answer = np.array(self.answers.pop(0))
        assert answer.shape == (size if isinstance(size, tuple) else (size,))
        assert answer.min() >= low
        assert answer.max() < high
        return answer


# By hand


def test_copy_by_hand():
    a, b = [1, 0, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 0, 0, 0, 1]
    batch = task("copy").make(2, 1, Scripted([[a], [b]]))
    nothing = [0] * 8
    assert batch.inputs[:, 0].tolist() == [
        [*nothing, 1, 0],
        [*a, 0, 0],
        [*b, 0, 0],
        [*nothing, 0, 1],
        [*nothing, 0, 0],
        [*nothing, 0, 0],
    ]
    assert batch.targets[4:, 0].tolist() == [a, b]
    assert batch.scored_TB[:, 0].tolist() == [False] * 4 + [True] * 2


def test_recall_by_hand():
    a = [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]]
    b = [[1, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0], [0, 0, 1, 1, 0, 0]]
    c = [[0, 0, 0, 1, 1, 1], [1, 0, 1, 0, 1, 0], [1, 1, 1, 1, 1, 0]]
    shown = np.array([a, b, c])[:, :, None]  # items, vectors, one sequence, bits
    batch = task("recall").make(3, 1, Scripted(shown, [1]))
    item, query, nothing = [0] * 6 + [1, 0], [0] * 6 + [0, 1], [0] * 8
    expected = []
    for each in (a, b, c):
        expected += [item, *([*vector, 0, 0] for vector in each)]
    expected += [query, *([*vector, 0, 0] for vector in b), query, *[nothing] * 3]
    assert batch.inputs[:, 0].tolist() == expected
    assert batch.targets[-3:, 0].tolist() == c  # the item after the query, b
    assert batch.scored_TB[:, 0].tolist() == [False] * 17 + [True] * 3


# By rule, at any size


def decode_copy(batch: Batch, length: int, column: int) -> torch.Tensor:
    """What the targets must be, told from the inputs alone."""
    start, end = Copy.signature.inputs - 2, Copy.signature.inputs - 1
    inputs = batch.inputs[:, column]
    assert inputs[:, start].nonzero().flatten().tolist() == [0]
    assert inputs[:, end].nonzero().flatten().tolist() == [length + 1]
    assert not inputs[length + 1 :, :start].any()
    return inputs[1 : length + 1, :start]


def decode_recall(batch: Batch, length: int, column: int) -> torch.Tensor:
    """What the targets may be, told from the inputs alone: an item after one like the query."""
    mark, ask = Recall.signature.inputs - 2, Recall.signature.inputs - 1
    inputs = batch.inputs[:, column]
    assert inputs[:, mark].nonzero().flatten().tolist() == list(range(0, 4 * length, 4))
    first, second = inputs[:, ask].nonzero().flatten().tolist()
    assert (first, second) == (4 * length, 4 * length + 4)
    assert not inputs[second + 1 :].any()
    items = [inputs[4 * n + 1 : 4 * n + 4, :mark] for n in range(length)]
    query, message = inputs[first + 1 : second, :mark], batch.targets[-3:, column]
    after = [
        items[n + 1] for n in range(length - 1) if torch.equal(items[n], query)
    ]  # an item may occur twice
    return next((answer for answer in after if torch.equal(answer, message)), after[0])


DECODERS: dict[str, Callable[[Batch, int, int], torch.Tensor]] = {
    "copy": decode_copy,
    "recall": decode_recall,
}


@pytest.mark.parametrize("name", BOTH)
@settings(max_examples=25, deadline=None)
@given(length=st.integers(2, 30), count=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_the_targets_are_what_the_inputs_ask_for(name, length, count, seed):
    batch = task(name).make(length, count, np.random.default_rng(seed))
    for column in range(count):
        answer = DECODERS[name](batch, length, column)
        scored = batch.scored_TB[:, column]
        assert torch.equal(batch.targets[scored, column], answer)
        assert scored.tolist() == [False] * (len(scored) - len(answer)) + [True] * len(answer)


@pytest.mark.parametrize("name", BOTH)
def test_inputs_and_targets_are_bits_of_the_size_that_the_task_says(name):
    result = task(name)
    batch = result.make(3, 50, np.random.default_rng(0))
    assert batch.inputs.shape[1:] == (50, result.signature.inputs)
    assert batch.targets.shape[1:] == (50, result.signature.outputs)
    assert batch.inputs.unique().tolist() == batch.targets.unique().tolist() == [0, 1]
    assert batch.targets[batch.scored_TB].mean() == pytest.approx(0.5, abs=0.1)
    assert (batch.mask_TB, batch.continues) == (None, False)


def test_a_copy_of_one_vector_is_the_shortest():
    assert len(task("copy").make(1, 2, np.random.default_rng(0)).inputs) == 4


def test_recall_asks_for_every_item_but_the_first():
    batch = task("recall").make(4, 400, np.random.default_rng(0))
    items = batch.inputs[:16].unflatten(0, (4, 4))[:, 1:, :, :6]
    answers = [
        next(n for n in range(4) if torch.equal(items[n, :, column], batch.targets[-3:, column]))
        for column in range(400)
    ]
    assert np.bincount(answers, minlength=4).tolist() == pytest.approx([0, 133, 133, 133], abs=40)


# Batches by number


@pytest.mark.parametrize("name", BOTH)
@given(number=st.integers(0, 10**9), seed=st.integers(0, 10**9))
@settings(max_examples=15, deadline=None)
def test_a_batch_depends_on_its_number_and_the_seed_alone(name, number, seed):
    one, other = task(name, seed), task(name, seed)
    for earlier in (0, 3, number + 1):
        other.train_batch(earlier)
    assert same(one.train_batch(number), other.train_batch(number))


@pytest.mark.parametrize("name", BOTH)
def test_other_numbers_and_other_seeds_give_other_batches(name):
    result = [
        task(name, seed, shortest=5, longest=5).train_batch(number)
        for seed in range(5)
        for number in range(5)
    ]
    assert len({batch.targets.numpy().tobytes() for batch in result}) == 25


def length_of(name: str, batch: Batch) -> int:
    channel = {"copy": batch.inputs.shape[2] - 1, "recall": batch.inputs.shape[2] - 2}[name]
    marks = batch.inputs[:, 0, channel].nonzero().flatten()
    return int(marks[0]) - 1 if name == "copy" else len(marks)


@pytest.mark.parametrize("name", BOTH)
@settings(max_examples=25, deadline=None)
@given(shortest=st.integers(2, 6), more=st.integers(0, 5), draws=st.integers(1, 4), data=st.data())
def test_lengths_lie_between_the_shortest_and_the_longest(name, shortest, more, draws, data):
    longest = shortest + more
    result = task(name, shortest=shortest, longest=longest, draws=draws, batch=2)
    batch = result.train_batch(data.draw(st.integers(0, 10**6)))
    assert shortest <= length_of(name, batch) <= longest
    assert batch.inputs.shape[1] == 2


@pytest.mark.parametrize("name", BOTH)
def test_every_length_comes_up(name):
    result = task(name, shortest=2, longest=5, batch=1)
    lengths = {length_of(name, result.train_batch(number)) for number in range(60)}
    assert lengths == {2, 3, 4, 5}


@pytest.mark.parametrize("name", BOTH)
def test_more_draws_favour_long_sequences(name):
    def mean(draws: int) -> float:
        result = task(name, shortest=2, longest=11, draws=draws, batch=1)
        return float(np.mean([length_of(name, result.train_batch(n)) for n in range(150)]))

    assert mean(1) == pytest.approx(6.5, abs=0.8)
    assert mean(3) == pytest.approx(9.0, abs=0.8)  # 11 minus the mean of the least of three


@pytest.mark.parametrize("name", BOTH)
def test_the_greatest_length_grows_to_the_longest(name):
    result = task(name, shortest=2, longest=6, draws=50, batch=1, updates=100, grow_share=0.4)
    lengths = [
        length_of(name, result.train_batch(number)) for number in (0, 1, 10, 11, 31, 39, 900)
    ]
    assert lengths == [2, 3, 3, 4, 6, 6, 6]  # so many draws that the greatest length comes up


@pytest.mark.parametrize("name", BOTH)
def test_once_lengths_have_grown_batches_are_those_of_a_run_without(name):
    grown, plain = (
        task(name, longest=6, batch=2, updates=10, grow_share=each) for each in (0.5, 0)
    )
    for number in (5, 6, 1000):
        assert torch.equal(grown.train_batch(number).inputs, plain.train_batch(number).inputs)


# Evaluation


class Recorder(torch.nn.Module):
    """Stands in for a network: keeps what it is shown and always says the same."""

    memory_head = None

    def __init__(self, outputs: int, logit: float = 0.0) -> None:
        super().__init__()
        self.logit = torch.nn.Parameter(torch.tensor(logit))
        self.outputs, self.seen = outputs, []

    def forward(self, inputs, state, mask_TB, asked_TB=None):
        self.seen.append(inputs.clone())
        logits = self.logit.expand(*inputs.shape[:2], self.outputs)
        return Prediction(logits, None, None, inputs), None


def shown(name: str, seed: int, split: str, **of_task: int) -> list[torch.Tensor]:
    result = task(name, seed, **of_task)
    network = Recorder(result.signature.outputs)
    result.evaluate(network, split)
    return network.seen


SMALL = {"longest": 3, "valid_sequences": 300, "test_sequences": 5}


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("split", ["valid", "test"])
def test_the_sequences_of_an_evaluation_do_not_depend_on_the_seed(name, split):
    one, other = shown(name, 1, split, **SMALL), shown(name, 2, split, **SMALL)
    assert all(map(torch.equal, one, other))


@pytest.mark.parametrize("name", BOTH)
def test_validation_and_test_show_different_sequences(name):
    # As many of each: with the same seed they would be the same sequences.
    alike = {"longest": 3, "valid_sequences": 40, "test_sequences": 40}
    valid, test = (torch.cat(shown(name, 0, split, **alike), 1) for split in ("valid", "test"))
    assert valid.shape == test.shape
    assert not torch.equal(valid, test)
    chosen = list(range(6))
    first, second = (task(name, **alike).examples(split, chosen) for split in ("valid", "test"))
    assert not torch.equal(first.inputs, second.inputs)


@pytest.mark.parametrize("name", BOTH)
def test_as_many_sequences_are_measured_as_asked_for_at_the_greatest_length(name):
    inputs = shown(name, 0, "valid", **SMALL)
    assert sum(each.shape[1] for each in inputs) == 300
    assert {len(each) for each in inputs} == {8 if name == "copy" else 20}


@pytest.mark.parametrize("name", BOTH)
def test_the_metric_is_nats_per_bit(name):
    result = task(name, **SMALL)
    undecided = result.evaluate(Recorder(result.signature.outputs), "test")["bce"]
    assert undecided == pytest.approx(np.log(2))
    sure = result.evaluate(Recorder(result.signature.outputs, logit=-50.0), "test")["bce"]
    assert sure == pytest.approx(25, abs=8)  # 50 nats for every set bit, about half of them


@pytest.mark.parametrize("name", BOTH)
def test_measuring_changes_nothing_and_says_the_same_again(name):
    config = make_config(name, scale="smoke", overrides={"model.hidden": 8, "memory.cells": 4})
    result = task(name, **SMALL)
    network = build_network(config, result.signature)
    assert result.evaluate(network, "test") == result.evaluate(network, "test")


# Settings


@pytest.mark.parametrize(
    ("name", "values", "rule"),
    [
        ("copy", {"shortest": 0}, "task.shortest must be at least 1"),
        ("copy", {"shortest": 5, "longest": 4}, "at most task.longest, not 5 with 4"),
        ("copy", {"draws": 0}, "task.draws must be at least 1, not 0"),
        ("copy", {"grow_share": -1}, "task.grow_share must be at least 0, not -1"),
        ("copy", {"valid_sequences": 0}, "task.valid_sequences must be at least 1, not 0"),
        ("copy", {"test_sequences": -1}, "task.test_sequences must be at least 1, not -1"),
        ("recall", {"shortest": 1}, "task.shortest must be at least 2"),
    ],
)
def test_a_wrong_size_is_refused_with_the_rule(name, values, rule):
    with pytest.raises(UserError) as error:
        TASKS.get(name).Config(**values)
    assert rule in str(error.value)
