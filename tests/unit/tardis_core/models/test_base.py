"""States, the loop over time, and what a model is unless it says otherwise."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn, tensor

from tardis_core.kernels import Needs
from tardis_core.models.base import (
    ModelConfig,
    Reads,
    SequenceModel,
    declared,
    flatten_state,
    keep_where_masked,
    map_state,
    unroll,
)


class Inner(NamedTuple):
    count_B: Tensor
    table_BK: Tensor


class Outer(NamedTuple):
    h_B: Tensor
    inner: Inner


def state(first):
    """Three sequences; all numbers differ."""
    numbers = first + torch.arange(12.0)
    return Outer(numbers[:3], Inner(numbers[3:6], numbers[6:].view(3, 2)))


def lists(value):
    return [part.tolist() for part in flatten_state(value)]


def test_a_state_is_mapped_part_by_part_and_keeps_its_structure():
    result = map_state(lambda one, other: one - 2 * other, state(0), state(100))
    assert isinstance(result.inner, Inner)
    assert lists(result) == lists(map_state(lambda one: one - 2 * (one + 100), state(0)))
    assert map_state(torch.neg, tensor([1.0])).tolist() == [-1.0]


def test_the_tensors_of_a_state_stand_in_its_order():
    assert lists(state(0)) == [[0, 1, 2], [3, 4, 5], [[6, 7], [8, 9], [10, 11]]]


def test_where_the_mask_is_false_the_state_stays():
    result = keep_where_masked(tensor([True, False, True]), state(100), state(0))
    assert lists(result) == [[100, 1, 102], [103, 4, 105], [[106, 107], [8, 9], [110, 111]]]


@pytest.mark.parametrize("masked", [False, True])
def test_a_step_is_run_over_time(masked):
    def step(total_B, x_B, noise_B):
        new_B = total_B + x_B
        return new_B, (new_B, 10 * x_B if noise_B is None else noise_B)

    x_TB, mask_TB = tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[True, True], [False, True]])
    (totals, others), last = unroll(step, (x_TB, None), torch.zeros(2), mask_TB if masked else None)
    assert totals.tolist() == [[1, 2], [4, 6]]  # what a step returns is reported in any case
    assert others.tolist() == [[10, 20], [30, 40]]
    assert last.tolist() == ([1, 6] if masked else [4, 6])
    (_, others), _ = unroll(step, (x_TB, -x_TB), torch.zeros(2), None)
    assert others.tolist() == [[-1, -2], [-3, -4]]


class Plain(SequenceModel):
    """A model that says nothing of itself."""

    recurrence = "plain"

    def __init__(self):
        super().__init__()
        self.config = ModelConfig(hidden=7)

    def initial_state(self, batch, like):
        return None

    def draw_noise(self, x_TBD, generator):
        return None

    def forward(self, x_TBD, state=None, mask_TB=None, noise=None):
        raise NotImplementedError


class Special(Plain):
    """It may compute something else."""


def test_a_model_makes_no_choices_and_has_no_memory_and_no_kernel_by_itself():
    model = Plain()
    assert (model.discrete, model.reads_alone, model.two_parts) == (False, False, False)
    assert (model.read_width, model.output_width) == (0, 7)
    assert (model.kernel_needs(), model.choosing(), model.Memory) == (Needs(), (), None)


def test_reads_are_of_one_cell_unless_a_model_says_that_it_mixes_them():
    assert not Reads(torch.zeros(1), torch.zeros(1), torch.zeros(1)).soft


def test_what_a_class_declares_does_not_count_for_its_subclasses():
    assert declared(Plain(), "recurrence") == "plain"
    assert declared(Special(), "recurrence") is None
    assert declared(nn.Linear(1, 1), "recurrence") is None
