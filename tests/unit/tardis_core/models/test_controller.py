"""One step of the controller against numbers worked out by hand."""

import math

import pytest
import torch
from torch import tensor

from tardis_core.models.controller import (
    Controller,
    ControllerState,
    LstmConfig,
    gumbel_sigmoid,
    recurrent_dropout,
)


def sigmoid(a):
    return 1 / (1 + math.exp(-a))


def doubles(values):
    return tensor(values, dtype=torch.float64)


def scalar_controller(reset_bias=(0.0, 0.0), **options):
    """H 1, D 1, Q 1: rows f, i, o, g, alpha, beta."""
    controller = Controller(1, 1, 1, reset_gates=True, **options).double()
    with torch.no_grad():
        controller.W_h.weight.copy_(doubles([[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]]).T)
        controller.W_x.weight.copy_(doubles([[-0.7, 0.6, 0.5, -0.4, 0.3, 0.2]]).T)
        controller.W_r.weight.copy_(doubles([[1.1, -1.2, 1.3, 1.4, -0.15, 0.16]]).T)
        controller.b.copy_(doubles([0.05, -0.06, 0.07, 0.08, *reset_bias]))
    return controller


def step(controller, h=0.5, c=-0.25, x=2.0, r=-1.0, **noise):
    state = ControllerState(doubles([[h]]), doubles([[c]]))
    zx = controller.project_inputs(doubles([[[x]]]))[0]
    return controller(zx, doubles([[r]]), state, **noise)


def test_gumbel_sigmoid_divides_by_the_temperature():
    result = gumbel_sigmoid(doubles([0.3, -0.6, 0.0]), None).tolist()
    assert result == pytest.approx([0.7310585786, 0.1192029220, 0.5], abs=1e-9)


def test_gumbel_sigmoid_adds_the_noise_before_it_divides():
    result = gumbel_sigmoid(doubles([0.3, 0.3]), doubles([0.3, -0.9])).tolist()
    assert result == pytest.approx([sigmoid(2), sigmoid(-2)], abs=1e-12)


def test_a_step_by_hand():
    # h 0.5, c -0.25, x 2, r -1
    alpha = sigmoid((0.25 + 0.6 + 0.15 - 1.0) / 0.3)
    beta = sigmoid((0.3 + 0.4 - 0.16 + 0.2) / 0.3)
    f = sigmoid(0.05 - 1.4 - 1.1 + 0.05)
    i = sigmoid(0.10 + 1.2 + 1.2 - 0.06)
    o = sigmoid(0.15 + 1.0 - 1.3 + 0.07)
    g = math.tanh(beta * 0.2 - 0.8 + alpha * -1.4 + 0.08)
    c = f * -0.25 + i * g
    state, reset = step(scalar_controller(reset_bias=(-1.0, 0.2)))
    assert reset[0].tolist() == pytest.approx([alpha, beta], abs=1e-12)
    assert alpha == pytest.approx(0.5)  # by the choice of its bias
    assert state.c_BH.item() == pytest.approx(c, abs=1e-12)
    assert state.h_BH.item() == pytest.approx(o * math.tanh(c), abs=1e-12)


def test_noise_moves_alpha_and_beta_each_by_its_own():
    _, reset = step(scalar_controller(), reset_noise_B2=doubles([[-0.7, 0.06]]))
    # logits 1.0 and 0.54
    expected = [sigmoid((1.0 - 0.7) / 0.3), sigmoid((0.54 + 0.06) / 0.3)]
    assert reset[0].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("matrix", "closed"), [("W_r", (-1e3, 1e3)), ("W_h", (1e3, -1e3))], ids=["alpha", "beta"]
)
def test_a_closed_reset_gate_cuts_its_source_from_the_candidate_only(matrix, closed):
    controller = scalar_controller(reset_bias=closed)
    opened = scalar_controller(reset_bias=(1e3, 1e3))
    before = [step(each)[0].c_BH.item() for each in (controller, opened)]
    for each in (controller, opened):
        with torch.no_grad():
            getattr(each, matrix).weight[3] += 5.0  # of the candidate
    after = [step(each)[0].c_BH.item() for each in (controller, opened)]
    assert after[0] == before[0]
    assert abs(after[1] - before[1]) > 0.01
    with torch.no_grad():
        getattr(controller, matrix).weight[1] -= 3.0  # of the input gate
    assert abs(step(controller)[0].c_BH.item() - before[0]) > 0.01


def test_alpha_stands_on_what_was_read_and_beta_on_the_hidden_state():
    forgetful = scalar_controller(reset_bias=(-1e3, 1e3))  # alpha 0, beta 1
    _, reset = step(forgetful)
    assert reset[0].tolist() == [0.0, 1.0]
    f, i = sigmoid(-2.4), sigmoid(2.44)
    g = math.tanh(0.2 - 0.8 + 0.08)
    assert step(forgetful)[0].c_BH.item() == pytest.approx(f * -0.25 + i * g, abs=1e-12)


def test_without_reset_gates_both_sources_count_in_full():
    controller = Controller(1, 1, 1).double()
    full = scalar_controller(reset_bias=(1e3, 1e3)).state_dict()
    controller.load_state_dict({name: value[:4] for name, value in full.items()})
    state, reset = step(controller)
    assert reset is None
    expected = step(scalar_controller(reset_bias=(1e3, 1e3)))[0]
    assert state.c_BH.item() == pytest.approx(expected.c_BH.item(), abs=1e-12)


def normalised_controller():
    """H 2, without a memory; the pre-activations are W_x x with x = 1."""
    controller = Controller(1, 2, layer_norm=True).double()
    with torch.no_grad():
        controller.W_h.weight.zero_()
        controller.W_x.weight.copy_(doubles([[1.0, 3, 0, 8, 5, 1, 2, 6]]).T)
        controller.gain.copy_(doubles([[1.0, 2], [0.5, 1], [1, 1], [3, 0.25]]))
        controller.b.copy_(doubles([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]))
    return controller


def test_layer_norm_is_a_gate_at_a_time_and_the_bias_comes_after_it():
    # f (1, 3) and g (2, 6): variance 1 and 4; i (0, 8): 16; o (5, 1): 4
    def unit(variance):
        return math.sqrt(variance) / math.sqrt(variance + 1e-5)

    f = [sigmoid(-unit(1) + 0.1), sigmoid(2 * unit(1) + 0.2)]
    i = [sigmoid(-0.5 * unit(16) + 0.3), sigmoid(unit(16) + 0.4)]
    o = [sigmoid(unit(4) + 0.5), sigmoid(-unit(4) + 0.6)]
    g = [math.tanh(-3 * unit(4) + 0.7), math.tanh(0.25 * unit(4) + 0.8)]
    c = [f[n] * (1.0, -2.0)[n] + i[n] * g[n] for n in range(2)]
    controller = normalised_controller()
    state = ControllerState(doubles([[0.3, 0.4]]), doubles([[1.0, -2.0]]))
    new, _ = controller(controller.project_inputs(doubles([[[1.0]]]))[0], None, state)
    assert new.c_BH[0].tolist() == pytest.approx(c, abs=1e-12)
    expected = [o[n] * math.tanh(c[n]) for n in range(2)]
    assert new.h_BH[0].tolist() == pytest.approx(expected, abs=1e-12)


def test_layer_norm_leaves_the_reset_logits_alone():
    controller = scalar_controller(reset_bias=(-1.0, 0.2), layer_norm=True)
    _, reset = step(controller)
    assert reset[0].tolist() == pytest.approx([0.5, sigmoid(0.74 / 0.3)], abs=1e-12)


def test_recurrent_dropout_scales_the_candidate_and_spares_the_memory_of_the_cell():
    f, i = sigmoid(-2.4), sigmoid(2.44)
    controller = scalar_controller(reset_bias=(1e3, 1e3))
    g = math.tanh(0.2 - 0.8 - 1.4 + 0.08)
    for scale in (0.0, 2.0):
        state, _ = step(controller, dropout_BH=doubles([[scale]]))
        assert state.c_BH.item() == pytest.approx(f * -0.25 + i * scale * g, abs=1e-12)


def test_initial_biases_open_the_forget_and_reset_gates():
    controller = Controller(2, 3, 2, reset_gates=True, forget_bias=1.5, reset_bias=3.0)
    assert controller.b.tolist() == [1.5] * 3 + [0.0] * 9 + [3.0] * 2


@pytest.mark.parametrize(("gain", "grows"), [(1.0, True), (0.1, False)])
def test_a_small_gain_keeps_the_gradient_from_growing_on_its_way_back(gain, grows):
    torch.manual_seed(0)
    controller = Controller(8, 64, layer_norm=True, norm_gain=gain)
    zx_TBG = controller.project_inputs(torch.eye(8)[torch.randint(8, (150, 4))])

    def gradient(steps: int) -> float:
        first = ControllerState(torch.zeros(4, 64, requires_grad=True), torch.zeros(4, 64))
        state = first
        for zx_BG in zx_TBG[-steps:]:
            state, _ = controller(zx_BG, None, state)
        (gradient_BH,) = torch.autograd.grad(state.h_BH.square().sum(), first.h_BH)
        return gradient_BH.norm().item()

    assert (gradient(150) > gradient(15)) == grows


def test_initial_recurrent_matrix_of_each_gate_is_orthogonal():
    controller = Controller(2, 4, 2, reset_gates=True).double()
    for gate in controller.W_h.weight[:16].chunk(4):
        torch.testing.assert_close(gate @ gate.T, torch.eye(4).double(), rtol=0, atol=1e-5)


def test_without_a_memory_it_is_the_lstm_of_torch():
    torch.manual_seed(0)
    H, controller, cell = 5, Controller(3, 5), torch.nn.LSTMCell(3, 5)
    order = [1, 0, 3, 2]  # torch has the gates as i, f, g, o
    with torch.no_grad():
        for ours, theirs in ((controller.W_x, cell.weight_ih), (controller.W_h, cell.weight_hh)):
            theirs.copy_(ours.weight.view(4, H, -1)[order].reshape(4 * H, -1))
        cell.bias_ih.copy_(controller.b.view(4, H)[order].flatten())
        cell.bias_hh.zero_()
    x, h, c = torch.randn(2, 3), torch.randn(2, H), torch.randn(2, H)
    state, reset = controller(controller.project_inputs(x), None, ControllerState(h, c))
    assert reset is None
    for ours, theirs in zip(state, cell(x, (h, c)), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_start_unless_something_else_is_asked_for():
    torch.manual_seed(0)
    H = 64
    controller = Controller(2, H, 2, reset_gates=True)
    assert set(dict(controller.named_parameters())) == {
        *("W_h.weight", "W_x.weight", "W_r.weight", "b")
    }
    assert controller.b.unique_consecutive().tolist() == [1.0, 0.0, 1.0]  # f; i, o, g; RESET
    assert controller.b.sum() == H + 2
    assert controller.W_h.weight[4 * H :].norm(dim=1).max() < 0.8  # not orthogonal, as the gates


def test_the_state_before_the_first_step_is_zero():
    state = ControllerState.empty(2, 3, torch.ones((), dtype=torch.float64))
    for part in state:
        assert torch.equal(part, torch.zeros(2, 3, dtype=torch.float64))


def test_recurrent_dropout_is_that_of_every_step_and_unit():
    x_TBD, generator = torch.zeros(4, 3, 2), torch.Generator().manual_seed(0)
    mask = recurrent_dropout(LstmConfig(hidden=7, recurrent_dropout=0.5), x_TBD, generator)
    assert mask.shape == (4, 3, 7)
    assert mask.unique().tolist() == [0.0, 2.0]
    assert recurrent_dropout(LstmConfig(hidden=7), x_TBD, generator) is None
