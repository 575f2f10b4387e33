"""Every registered task keeps the same promises; a new file in tasks/ joins by itself."""

import pytest
import torch

from tardis_core.build import build_network, build_task, load_data
from tardis_core.config import make_config
from tardis_core.tasks.base import TASKS
from tardis_core.training.objective import objective


@pytest.fixture(scope="module", params=TASKS.names())
def case(request):
    overrides = {"training.batch": 4, "model.hidden": 8}
    config = make_config(request.param, scale="smoke", overrides=overrides)
    return config, load_data(config, source="standin")


def test_a_batch_is_a_function_of_seed_and_number(case):
    config, data = case
    one, two = build_task(config, data), build_task(config, data)
    two.train_batch(0)
    for part, same in zip(one.train_batch(3), two.train_batch(3), strict=True):
        assert torch.equal(part, same) if isinstance(part, torch.Tensor) else part == same
    assert not _equal(one.train_batch(3).inputs, one.train_batch(4).inputs)


def test_seeds_give_different_batches(case):
    config, data = case
    task = build_task(config, data)
    other = type(task)(task.config, data, 4, seed=config.seed + 1)
    assert any(not _equal(task.train_batch(n).inputs, other.train_batch(n).inputs) for n in (0, 1))


def test_batches_fit_the_signature_and_score_existing_steps_only(case):
    config, data = case
    task = build_task(config, data)
    for number in range(3):
        batch = task.train_batch(number)
        width = () if task.signature.symbols else (task.signature.inputs,)
        assert batch.inputs.shape == (*batch.scored_TB.shape, *width)
        assert batch.scored_TB.any()
        if batch.mask_TB is not None:
            assert not (batch.scored_TB & ~batch.mask_TB).any()
        if task.signature.symbols:
            assert int(batch.inputs.max()) < task.signature.inputs


def test_evaluation_gives_the_metric_and_repeats(case):
    config, data = case
    task = build_task(config, data)
    network = build_network(config, task.signature)
    first = task.evaluate(network, "valid")
    assert first == task.evaluate(network, "valid")
    assert task.metric.name in first
    assert task.evaluate(network, "test") != first


def test_a_stand_in_says_so_in_its_name(case):
    config, data = case
    provenance = build_task(config, data).provenance(config.task_settings, data)
    assert provenance.real or provenance.name.endswith("-standin")


def test_the_objective_has_a_gradient(case):
    config, data = case
    task = build_task(config, data)
    network = build_network(config, task.signature)
    result = objective(
        network, task.signature, task.train_batch(0), None, torch.Generator().manual_seed(0), 0.0
    )
    result.loss.backward()
    assert float(network.model.controller.W_h.weight.grad.abs().sum()) > 0


def _equal(one, two):
    return one.shape == two.shape and torch.equal(one, two)
