"""Every model goes through the same loop as TARDIS: it learns, and resumes to the last bit."""

import functools

import pytest
import torch

from tardis_core.build import load_data
from tardis_core.models.base import MODELS
from tardis_core.training.loop import Trainer
from tests.support.systems import SYSTEMS
from tests.support.tiny import same, timeless, tiny

pytestmark = pytest.mark.slow  # together: more than sixty trainings
# These judge several runs of a sequence, so that its state cannot be carried on.
STARTS_ANEW = ("rloo", "counterfactual")


def task_for(model, estimator):
    """A task whose state is carried from batch to batch, where there can be one."""
    if estimator in STARTS_ANEW:
        return "copy"
    return "snli" if MODELS.get(model).two_parts else "ptb"


def trainer_of(model, estimator, task="ptb", **training):
    return Trainer(tiny(task, model, estimator, **training), data_of(task))


@functools.cache
def data_of(task):
    return load_data(tiny(task), source="standin")


@pytest.mark.parametrize(("model", "estimator"), SYSTEMS)
def test_a_resumed_training_equals_one_that_was_never_stopped(model, estimator):
    task = task_for(model, estimator)
    whole, first = trainer_of(model, estimator, task), trainer_of(model, estimator, task)
    losses = [whole.step() for _ in range(6)]
    begun = [first.step() for _ in range(3)]
    second = trainer_of(model, estimator, task)
    second.restore(first.state())
    assert begun + [second.step() for _ in range(3)] == losses
    assert same(timeless(second.state()), timeless(whole.state()))
    assert len(set(losses)) == 6


@pytest.mark.parametrize(("model", "estimator"), SYSTEMS)
def test_every_model_learns_one_batch(model, estimator):
    trainer = trainer_of(model, estimator, "copy", learning_rate=0.02, updates=100)
    batch = trainer.task.train_batch(0)
    trainer.task.train_batch = lambda number: batch
    first = trainer.step()
    assert any(trainer.step() < 0.9 * first for _ in range(59))


def test_training_moves_the_averages_of_batch_normalisation_and_evaluation_does_not():
    trainer = trainer_of("bnlstm", None)
    model = trainer.network.model
    trainer.step()
    moved = model.mean_SW.clone()
    assert moved.any(1).all()  # those of every step that an evaluation will ask for
    trainer.evaluate("valid")
    assert torch.equal(model.mean_SW, moved)


def test_the_slope_of_hmlstm_grows_with_the_training():
    trainer = trainer_of("hmlstm", None)
    slopes = []
    for _ in range(12):
        trainer.step()
        slopes.append(trainer.network.model.slope.item())
    assert slopes == pytest.approx([1 + 4 * n / 12 for n in range(12)])
