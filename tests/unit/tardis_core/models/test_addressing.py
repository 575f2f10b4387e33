"""The read logits against numbers worked out by hand."""

import math

import pytest
import torch
from torch import tensor

from tardis_core.estimators.gumbel import Gumbel, GumbelConfig
from tardis_core.models.controller import ControllerState
from tardis_core.models.memory import MemoryState
from tardis_core.models.tardis import MemoryConfig, Tardis, TardisConfig, TardisState

tanh = math.tanh
USAGE = 1 / math.sqrt(1 + 1e-5)  # of reads (3, 1): centred (1, -1), variance 1


def make(D=1, H=1, **sizes):
    return Tardis(D, TardisConfig(hidden=H), MemoryConfig(**sizes), Gumbel(GumbelConfig(), D, H))


def hand_model():
    """D 1, H 1, K 2, A 1, C 1, P 1, with weights that differ from each other."""
    model = make(cells=2, address=1, content=1, attention=1).double()
    values = {
        "address_KA": [[1.0], [-2.0]],
        "addressing.a": [2.0],
        "addressing.W_h.weight": [[0.5]],
        "addressing.W_x.weight": [[0.25]],
        "addressing.W_x.bias": [0.125],
        "addressing.W_m.weight": [[0.1, 0.3]],  # address, content
        "addressing.W_u.weight": [[0.2, -0.4]],
    }
    values = {name: tensor(value, dtype=torch.float64) for name, value in values.items()}
    model.load_state_dict(model.state_dict() | values)
    return model


def logits(model, *, h, x, content, reads, last):
    """pi of one step from a state written out."""
    controller = ControllerState(tensor([[h]]).double(), tensor([[0.0]]).double())
    memory = MemoryState(
        tensor([[[each] for each in content]]).double(),
        tensor([reads]).double(),
        tensor([last]).double(),
        tensor([5]),
    )
    hidden, _ = model(tensor([[[x]]]).double(), TardisState(controller, memory))
    return hidden.reads.pi_TBK[0, 0]


def test_logits_of_the_first_step():
    # h 0, u 0, contents 0: b + W_x x + W_m [address, 0] = 0.125 + 0.25 · 2 + 0.1 · (1, -2)
    hidden, _ = hand_model()(tensor([[[2.0]]]).double())
    expected = [2 * tanh(0.725), 2 * tanh(0.425)]
    assert hidden.reads.pi_TBK[0, 0].tolist() == pytest.approx(expected, abs=1e-12)


def test_logits_with_every_term():
    common = 0.125 + 0.25 * 2 + 0.5 * -1 + 0.2 * USAGE - 0.4 * -USAGE
    expected = [2 * tanh(common + 0.1 + 0.3 * 4), 2 * tanh(common - 0.2 + 0.3 * -5)]
    result = logits(hand_model(), h=-1.0, x=2.0, content=[4, -5], reads=[3, 1], last=[0, 0])
    assert result.tolist() == pytest.approx(expected, abs=1e-12)


def test_the_cell_read_last_loses_one_hundred():
    step = dict(h=-1.0, x=2.0, content=[4, -5], reads=[3, 1])
    free = logits(hand_model(), last=[0, 0], **step).tolist()
    result = logits(hand_model(), last=[0, 1], **step).tolist()
    assert result == pytest.approx([free[0], free[1] - 100], abs=1e-12)


def test_gradient_of_a_logit_by_hand():
    model = hand_model()
    step = dict(h=-1.0, x=2.0, content=[1, -5], reads=[3, 1], last=[1, 0])
    logits(model, **step)[0].backward()
    inside = 0.125 + 0.25 * 2 + 0.5 * -1 + 0.6 * USAGE + 0.1 + 0.3
    slope = 2 * (1 - tanh(inside) ** 2)
    expected = {
        "a": [tanh(inside)],
        "W_h.weight": [-slope],
        "W_x.weight": [2 * slope],
        "W_x.bias": [slope],
        "W_m.weight": [slope, slope],  # address 1, content 1
        "W_u.weight": [slope * USAGE, -slope * USAGE],
    }
    for name, parameter in model.addressing.named_parameters():
        assert parameter.grad.flatten().tolist() == pytest.approx(expected[name], abs=1e-12)


@pytest.mark.parametrize(("hidden", "asked", "width"), [(8, 3, 3), (8, 0, 2), (1, 0, 1)])
def test_the_mlp_is_as_wide_as_asked_or_a_quarter_of_the_state(hidden, asked, width):
    assert make(H=hidden, attention=asked).addressing.a.shape == (width,)


def test_the_initial_vector_over_the_units_is_uniform_up_to_one_over_the_root_of_their_number():
    torch.manual_seed(0)
    a = make(H=2, attention=400).addressing.a
    assert a.abs().max() <= 0.05
    assert a.min() < -0.045
    assert a.max() > 0.045
    assert abs(a.mean()) < 0.01


def test_the_weights_of_the_first_cells():
    model = make(D=3, H=4, cells=5, address=2, content=6, attention=7)
    addressing, address_KA = model.addressing, model.address_KA
    for cells in (1, 3, 5):
        weights = addressing.cell_weights(address_KA[:cells])
        expected = address_KA[:cells] @ addressing.W_m.weight[:, :2].T
        torch.testing.assert_close(weights.address_KP, expected)
        assert torch.equal(weights.content_PC, addressing.W_m.weight[:, 2:])
        assert torch.equal(weights.usage_PK, addressing.W_u.weight[:, :cells])


def test_gain_scales_the_initial_matrix_over_the_memory_and_no_other():
    result = []
    for gain in (1.0, 5.0):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            result.append(make(H=8, gain=gain).state_dict())
    plain, scaled = result
    name = "addressing.W_m.weight"
    assert torch.equal(scaled.pop(name), 5 * plain.pop(name))
    assert all(torch.equal(scaled[name], plain[name]) for name in plain)


@pytest.mark.parametrize("width", [2, 8, 9])
def test_a_matching_start_prefers_the_cell_that_was_written_in_the_present_state(width):
    torch.manual_seed(0)
    H, K = 6, 5
    model = make(D=3, H=H, cells=K, address=2, content=4, attention=width, gain=3.0, match=True)
    states_KH = torch.randn(K, H)
    for now in range(K):
        memory = MemoryState(
            model.W_m(states_KH).unsqueeze(0), torch.zeros(1, K), torch.zeros(1, K), tensor([K])
        )
        cells = model.addressing.cell_weights(torch.zeros(K, 2))
        zx_BP = model.addressing.W_x(torch.zeros(1, 3))
        pi_K = model.addressing(states_KH[now : now + 1], zx_BP, cells, memory)[0]
        if width == 8:
            assert pi_K.argmax() == now
        if width != 9:  # the odd unit has a say of its own
            top = 2 / math.sqrt(width) * width / 2 * 2 / math.sqrt(3)
            assert pi_K[now].item() == pytest.approx(top, rel=1e-5)
            assert (pi_K <= top + 1e-5).all()


def test_a_single_unit_stays_as_it_is():
    torch.manual_seed(0)
    usual = make(D=3, H=4, cells=5, attention=1).addressing.state_dict()
    torch.manual_seed(0)
    matching = make(D=3, H=4, cells=5, attention=1, match=True).addressing.state_dict()
    assert all(torch.equal(usual[name], matching[name]) for name in usual)


def test_a_matching_start_keeps_the_usual_weights_elsewhere():
    torch.manual_seed(0)
    usual = make(D=3, H=4, cells=5, attention=6)
    torch.manual_seed(0)
    matching = make(D=3, H=4, cells=5, attention=6, match=True)
    for name in ("controller.W_h.weight", "W_m.weight", "address_KA"):
        assert torch.equal(usual.state_dict()[name], matching.state_dict()[name])
    first, second = matching.addressing.W_u.weight[0::2], matching.addressing.W_u.weight[1::2]
    assert torch.equal(first, second)
    assert torch.equal(first, 0.1 * usual.addressing.W_u.weight[0::2])
