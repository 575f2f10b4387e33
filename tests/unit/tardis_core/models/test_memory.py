"""The memory, step by step, against numbers worked out by hand."""

import math

import pytest
import torch
from torch import tensor

from tardis_core.models import memory as mem

ADDRESS = tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
CONTENT = tensor([[[10.0], [20.0], [30.0]], [[-1.0], [-2.0], [-3.0]]])


def test_usage_is_centred_and_divided_by_the_deviation():
    # mean 0.5; variance (1.5² + 3 · 0.5²) / 4 = 0.75
    deviation = math.sqrt(0.75 + 1e-5)
    expected = [1.5 / deviation, -0.5 / deviation, -0.5 / deviation, -0.5 / deviation]
    assert mem.usage(tensor([[2.0, 0, 0, 0]]))[0].tolist() == pytest.approx(expected, abs=1e-6)
    assert expected[0] == pytest.approx(1.7320, abs=1e-4)


@pytest.mark.parametrize("reads", [[0.0, 0, 0], [4.0, 4, 4], [7.0]])
def test_usage_is_zero_where_no_cell_stands_out(reads):
    assert mem.usage(tensor([reads])).tolist() == [[0.0] * len(reads)]


def test_usage_of_each_sequence_is_its_own():
    together = mem.usage(tensor([[1.0, 0, 0], [5.0, 5, 8]]))
    assert together[1].tolist() == pytest.approx([-0.7071, -0.7071, 1.4142], abs=1e-4)
    assert torch.equal(together[:1], mem.usage(tensor([[1.0, 0, 0]])))


def test_read_returns_the_address_and_the_content_of_the_cell():
    w = tensor([[0.0, 1, 0], [0.0, 0, 1]])
    assert mem.read(w, ADDRESS, CONTENT).tolist() == [[0, 2, 20], [3, 0, -3]]


def test_read_is_the_product_of_memory_and_weights():
    w = tensor([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])
    assert mem.read(w, ADDRESS, CONTENT).tolist() == [[1.25, 0.5, 17.5], [1.5, 1.0, -2.5]]


def test_the_gradient_of_a_read_weight_is_the_sum_of_its_cell():
    w = tensor([[0.0, 1, 0], [1.0, 0, 0]], requires_grad=True)
    mem.read(w, ADDRESS, CONTENT).sum().backward()
    assert w.grad.tolist() == [[11, 22, 33], [0, 0, 0]]


def test_the_first_writes_go_in_order_whatever_was_read():
    read = tensor([[0.0, 0, 1]] * 3)
    place = mem.write_cell(read, tensor([0, 1, 2]))
    assert place.int().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_later_writes_go_to_the_cell_just_read():
    read = tensor([[0.0, 1, 0], [1.0, 0, 0], [0.0, 0, 1]])
    place = mem.write_cell(read, tensor([3, 4, 1000]))
    assert place.int().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]


def test_sequences_of_one_batch_may_stand_at_different_steps():
    read = tensor([[0.0, 0, 1], [0.0, 0, 1]])
    assert mem.write_cell(read, tensor([1, 3])).int().tolist() == [[0, 1, 0], [0, 0, 1]]


def test_write_replaces_one_cell_and_leaves_the_others():
    place = tensor([[False, True, False], [True, False, False]])
    after = mem.write(CONTENT, place, tensor([[7.0], [8.0]]))
    assert after.squeeze(2).tolist() == [[10, 7, 30], [8, -2, -3]]
    assert CONTENT.squeeze(2).tolist() == [[10, 20, 30], [-1, -2, -3]]


def test_gradient_of_a_write_stops_at_the_cell_that_was_overwritten():
    content = CONTENT.clone().requires_grad_()
    microstate = tensor([[7.0], [8.0]], requires_grad=True)
    place = tensor([[False, True, False], [True, False, False]])
    weight = tensor([[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]])
    (mem.write(content, place, microstate) * weight).sum().backward()
    assert content.grad.squeeze(2).tolist() == [[1, 0, 3], [0, 5, 6]]
    assert microstate.grad.tolist() == [[2], [4]]


def test_empty_memory_holds_zeros_in_the_type_asked_for():
    state = mem.empty(2, 3, 4, torch.ones(1, dtype=torch.float64))
    assert state.content_BKC.shape == (2, 3, 4)
    for part in state[:3]:
        assert part.dtype == torch.float64
        assert not part.any()
    assert state.steps_B.tolist() == [0, 0]
    assert state.steps_B.dtype == torch.int64


@pytest.mark.parametrize(
    ("width", "density", "filled"), [(4, 0.5, 2), (10, 0.3, 3), (4, 0.01, 1), (5, 1.0, 5)]
)
def test_every_address_has_the_same_number_of_entries_and_at_least_one(width, density, filled):
    addresses = mem.sparse_addresses(50, width, density, 1.0, torch.Generator().manual_seed(0))
    assert ((addresses != 0).sum(1) == filled).all()
    assert addresses.shape == (50, width)


def test_the_entries_of_addresses_are_spread_over_all_places_with_the_scale_asked_for():
    addresses = mem.sparse_addresses(4000, 4, 0.5, 3.0, torch.Generator().manual_seed(0))
    assert addresses[addresses != 0].std().item() == pytest.approx(3.0, rel=0.05)
    assert (addresses != 0).double().mean(0).tolist() == pytest.approx([0.5] * 4, abs=0.04)


def test_addresses_are_a_function_of_the_generator():
    one, same, other = (
        mem.sparse_addresses(6, 4, 0.5, 1.0, torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_a_read_and_a_write_of_several_sequences_with_sizes_that_all_differ():
    B, K, A, C = 2, 3, 4, 5
    address_KA, content_BKC = torch.randn(K, A), torch.randn(B, K, C)
    w_BK = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    r_BQ = mem.read(w_BK, address_KA, content_BKC)
    both_KQ = [torch.cat([address_KA, content_BKC[n]], 1) for n in range(B)]
    expected = torch.stack([both_KQ[0][1], (both_KQ[1][0] + both_KQ[1][2]) / 2])
    torch.testing.assert_close(r_BQ, expected)
    place_BK = torch.tensor([[False, False, True], [True, False, False]])
    microstate_BC = torch.randn(B, C)
    written = mem.write(content_BKC, place_BK, microstate_BC)
    assert torch.equal(written[0, 2], microstate_BC[0])
    assert torch.equal(written[1, 0], microstate_BC[1])
    assert torch.equal(written[~place_BK], content_BKC[~place_BK])
