"""Gradient accumulation: a batch in parts makes the update of the whole batch."""

import copy

import pytest
import torch

from tardis_core.build import load_data
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.models.controller import ControllerState
from tardis_core.tasks.base import Batch
from tardis_core.training.loop import Trainer
from tardis_core.training.microbatches import Microbatch, join, split
from tardis_core.training.objective import Objective
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


def test_the_parts_of_a_batch_by_hand():
    scored = torch.tensor([[1, 1, 0, 1, 1], [1, 0, 0, 1, 0]]).bool()  # 6 steps count
    batch = Batch(torch.arange(10).view(2, 5), torch.zeros(2, 5), scored)
    state = ControllerState(torch.arange(5.0).view(5, 1), torch.arange(5.0, 10).view(5, 1))
    one, other = split(batch, state, 2)
    assert one.batch.inputs.tolist() == [[0, 1, 2], [5, 6, 7]]
    assert other.batch.inputs.tolist() == [[3, 4], [8, 9]]
    assert one.state.c_BH.flatten().tolist() == [5, 6, 7]
    assert other.state.h_BH.flatten().tolist() == [3, 4]
    assert (one.share, other.share) == (3 / 6, 3 / 6)
    assert [part.share for part in split(batch, None, 5)] == [2 / 6, 1 / 6, 0, 2 / 6, 1 / 6]
    (whole,) = split(batch, None, 1)
    assert (whole.batch, whole.state, whole.share) == (batch, None, 1.0)


def test_the_results_of_the_parts_are_put_together_by_their_shares():
    def part(share, value, states):
        done = Objective(
            torch.tensor(value, requires_grad=True),
            torch.tensor(2 * value),
            {"reward": torch.tensor(3 * value)},
            ControllerState(torch.tensor(states, requires_grad=True), torch.tensor(states)),
            None,
        )
        return Microbatch(None, None, share), done

    done = [part(0.75, 4.0, [[1.0]]), part(0.25, 8.0, [[2.0], [3.0]])]
    whole = join(done, continues=True)
    assert (whole.loss, whole.task_loss, whole.metrics) == (5.0, 10.0, {"reward": 15.0})
    assert whole.state.h_BH.tolist() == [[1.0], [2.0], [3.0]]
    assert not whole.state.h_BH.requires_grad
    assert join(done, continues=False).state is None
    assert join(done[:1], continues=True).state.h_BH.tolist() == [[1.0]]


def test_a_part_in_which_nothing_is_scored_adds_nothing():
    """And not a loss of 0 / 0: the update is that of the whole batch."""

    def step(parts):
        result = trainer(parts, "copy", "lstm", batch=3)
        batch = result.task.train_batch(0)
        batch.scored_TB[:, 1] = False
        result.task.train_batch = lambda number: batch
        return result.step(), gradients(result)

    (loss, theirs), (other, ours) = step(1), step(3)
    assert loss == pytest.approx(other, rel=1e-6)
    for name, expected in theirs.items():
        torch.testing.assert_close(ours[name], expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("batch", "accumulate"), [(4, 4), (5, 3), (4, 9)])
def test_a_baseline_of_the_other_sequences_needs_others_in_every_part(batch, accumulate):
    """Alone in its part, a sequence would have no baseline, and nothing would say so."""
    sizes = dict(batch=batch, accumulate=accumulate)
    message = rf"training\.accumulate={accumulate} .* training\.batch={batch} .*baseline=running"
    with pytest.raises(UserError, match=message):
        Trainer(tiny("copy", "tardis", "reinforce", **sizes), None)
    Trainer(tiny("copy", "tardis", "rloo", **sizes), None)  # its others are copies


@pytest.mark.parametrize(("batch", "accumulate"), [(4, 2), (4, 3), (5, 2), (1, 1)])
def test_a_baseline_of_the_other_sequences_that_are_in_the_part(batch, accumulate):
    Trainer(tiny("copy", "tardis", "reinforce", batch=batch, accumulate=accumulate), None)


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
