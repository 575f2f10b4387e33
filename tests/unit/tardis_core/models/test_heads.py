"""The heads and the encoder against numbers worked out by hand."""

import pytest
import torch
from torch import tensor

from tardis_core.models.heads import MemoryHead, OutputHead
from tardis_core.models.network import Encoder


def output_head(dropout=0.0):
    head = OutputHead(hidden=1, read_width=2, width=2, outputs=2, dropout=dropout)
    head.load_state_dict(
        {
            "g_h.weight": tensor([[2.0], [-3.0]]),
            "g_h.bias": tensor([0.5, 0.25]),
            "g_r.weight": tensor([[1.0, 0], [0, 1.0]]),
            "W_o.weight": tensor([[1.0, 10], [-1, 0]]),
            "W_o.bias": tensor([0.1, 0.2]),
        }
    )
    return head


def test_output_head_is_a_relu_layer_over_state_and_read():
    # g = relu(2 · 1 + 0.5 + 3, -3 · 1 + 0.25 + 1) = (5.5, 0)
    made = output_head()(tensor([[[1.0]]]), tensor([[[3.0, 1.0]]]))
    assert made[0, 0].tolist() == pytest.approx([5.6, -5.3])


def test_both_hidden_units_count_where_both_are_positive():
    # g = (2 · -1 + 0.5 + 3, 3 + 0.25 + 1) = (1.5, 4.25)
    made = output_head()(tensor([[[-1.0]]]), tensor([[[3.0, 1.0]]]))
    assert made[0, 0].tolist() == pytest.approx([1.5 + 42.5 + 0.1, -1.5 + 0.2])


def test_output_head_without_a_memory_sees_the_state_alone():
    head = OutputHead(hidden=1, read_width=0, width=2, outputs=2, dropout=0.0)
    weights = output_head().state_dict()
    weights.pop("g_r.weight")
    head.load_state_dict(weights)
    made = head(tensor([[[1.0]]]), None)
    assert made[0, 0].tolist() == pytest.approx([2.6, -2.3])


def test_dropout_of_the_head_needs_a_mask():
    h, r = torch.ones(50, 1, 1), torch.ones(50, 1, 2)
    made = output_head(dropout=0.5)(h, r)
    assert torch.equal(made, output_head()(h, r))


def test_dropout_of_the_head_scales_what_it_keeps():
    # g = (3.5, 0): the first logit is 0.1 without it, 0.1 + 3.5 / (1 - 0.75) with it
    h, r = torch.ones(4000, 1, 1), torch.ones(4000, 1, 2)
    head = output_head(dropout=0.75)
    made = head(h, r, head.draw_dropout(4000, h, torch.Generator().manual_seed(0)))[:, 0, 0]
    kept = made > 1
    assert made[kept].tolist() == pytest.approx([14.1] * int(kept.sum()), rel=1e-5)
    assert made[~kept].tolist() == pytest.approx([0.1] * int((~kept).sum()), rel=1e-5)
    assert kept.float().mean().item() == pytest.approx(0.25, abs=0.03)


def memory_head(attached=False):
    head = MemoryHead(read_width=2, inputs=1, outputs=2, attached=attached)
    head.load_state_dict(
        {
            "W_r.weight": tensor([[1.0, 2], [3, 4]]),
            "W_r.bias": tensor([0.5, -0.5]),
            "W_x.weight": tensor([[10.0], [20.0]]),
        }
    )
    return head


def test_memory_head_is_linear_in_what_was_read_and_the_input():
    made = memory_head()(tensor([[[1.0, -1.0]]]), tensor([[[0.5]]]))
    assert made[0, 0].tolist() == pytest.approx([1 - 2 + 0.5 + 5, 3 - 4 - 0.5 + 10])


def test_memory_head_trains_itself_alone():
    head = memory_head()
    r = tensor([[[1.0, -1.0]]], requires_grad=True)
    x = tensor([[[0.5]]], requires_grad=True)
    head(r, x)[0, 0, 1].backward()
    assert r.grad is None
    assert x.grad is None
    assert head.W_r.weight.grad.tolist() == [[0, 0], [1, -1]]
    assert head.W_x.weight.grad.tolist() == [[0], [0.5]]


def test_memory_head_attached_trains_what_was_read():
    r = tensor([[[1.0, -1.0]]], requires_grad=True)
    x = tensor([[[0.5]]], requires_grad=True)
    memory_head(attached=True)(r, x)[0, 0, 1].backward()
    assert (r.grad.tolist(), x.grad.tolist()) == ([[[3, 4]]], [[[20]]])


def test_encoder_makes_symbols_one_hot():
    made = Encoder(3, symbols=True, embedding=0)(tensor([[2, 0]]), torch.float32)
    assert made.tolist() == [[[0, 0, 1], [1, 0, 0]]]


def test_encoder_looks_symbols_up_where_there_is_an_embedding():
    encoder = Encoder(3, symbols=True, embedding=2)
    encoder.load_state_dict({"embedding.weight": tensor([[1.0, 2], [3, 4], [5, 6]])})
    assert encoder(tensor([[2, 0]]), torch.float32).tolist() == [[[5, 6], [1, 2]]]
    assert encoder.width == 2


def test_encoder_passes_vectors_on_as_they_are():
    encoder = Encoder(2, symbols=False, embedding=7)
    made = encoder(tensor([[[0.5, -2.0]]]), torch.float64)
    assert made.tolist() == [[[0.5, -2.0]]]
    assert made.dtype == torch.float64
    assert encoder.width == 2
