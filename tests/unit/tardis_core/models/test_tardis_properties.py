"""What holds for TARDIS whatever its size, its weights, its noise and its input."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tardis_core.models.base import flatten_state
from tardis_core.models.tardis import TardisNoise
from tests.support.small_tardis import inputs, make_tardis, noise_of, randomise, slice_noise

FEW = settings(max_examples=25)


@st.composite
def cases(draw, least_cells=1, dtype=torch.float64):
    """A model, an input and noise (or none)."""
    K = draw(st.integers(least_cells, 5))
    D, H, C = draw(st.tuples(*[st.integers(1, 4)] * 3))
    seed = draw(st.integers(0, 10_000))
    model = make_tardis(
        draw(st.sampled_from(["gumbel", "reinforce"])),
        D=D,
        H=H,
        K=K,
        A=draw(st.integers(1, 3)),
        C=C,
        P=draw(st.integers(1, 4)),
        seed=seed,
        dtype=dtype,
        reset_gates=draw(st.booleans()),
        layer_norm=H > 1 and draw(st.booleans()),
        recurrent_dropout=draw(st.sampled_from([0.0, 0.3])),
    )
    x = inputs(draw(st.integers(1, 9)), draw(st.integers(1, 3)), D, seed, dtype)
    noise = noise_of(model, x, seed) if draw(st.booleans()) else None
    return model, x, noise


def steps_of(model, x, noise):
    """Run a sequence a step at a time: the state before, what was made, the state after."""
    state = model.initial_state(x.shape[1], x)
    for t in range(len(x)):
        now = None if noise is None else slice_noise(noise, t, t + 1)
        hidden, after = model(x[t : t + 1], state, None, now)
        yield state, hidden, after
        state = after


def at_sequence(noise, n):
    if noise is None:
        return None
    return TardisNoise(*(part if part is None else part[:, n : n + 1] for part in noise))


@FEW
@given(cases())
def test_each_step_changes_one_cell_which_then_holds_the_micro_state(case):
    model, x, noise = case
    for before, hidden, after in steps_of(model, x, noise):
        written = torch.nn.functional.one_hot(
            hidden.reads.written_TB[0], model.memory_config.cells
        ).bool()
        old, new = before.memory.content_BKC, after.memory.content_BKC
        assert torch.equal(new[~written], old[~written])
        torch.testing.assert_close(new[written], model.W_m(hidden.h_TBH[0]))
        assert (written.sum(1) == 1).all()


@FEW
@given(cases())
def test_writes_fill_the_memory_in_order_and_then_go_where_was_read(case):
    model, x, noise = case
    reads = model(x, None, None, noise)[0].reads
    K = model.memory_config.cells
    for t in range(len(x)):
        if t < K:
            assert (reads.written_TB[t] == t).all()
        else:
            assert torch.equal(reads.written_TB[t], reads.read_TB[t])


@FEW
@given(cases())
def test_the_read_is_one_cell_bit_for_bit(case):
    model, x, noise = case
    for before, hidden, _ in steps_of(model, x, noise):
        for n, cell in enumerate(hidden.reads.read_TB[0]):
            address, content = model.address_KA[cell], before.memory.content_BKC[n, cell]
            assert torch.equal(hidden.r_TBQ[0, n], torch.cat([address, content]))


@FEW
@given(cases())
def test_the_state_counts_the_reads(case):
    model, x, noise = case
    hidden, state = model(x, None, None, noise)
    one_hot = torch.nn.functional.one_hot(hidden.reads.read_TB, model.memory_config.cells)
    assert torch.equal(state.memory.reads_BK, one_hot.sum(0).double())
    assert torch.equal(state.memory.last_read_BK, one_hot[-1].double())
    assert (state.memory.steps_B == len(x)).all()


@FEW
@given(cases(least_cells=2))
def test_no_cell_is_read_twice_in_a_row_while_there_is_another(case):
    model, x, noise = case
    read_TB = model(x, None, None, noise)[0].reads.read_TB
    assert (read_TB[1:] != read_TB[:-1]).all()


@pytest.mark.slow
@FEW
@given(cases())
def test_sequences_of_a_batch_do_not_meet(case):
    model, x, noise = case
    together, state = model(x, None, None, noise)
    for n in range(x.shape[1]):
        alone, own = model(x[:, n : n + 1], None, None, at_sequence(noise, n))
        torch.testing.assert_close(alone.h_TBH[:, 0], together.h_TBH[:, n], rtol=0, atol=1e-12)
        assert torch.equal(alone.reads.read_TB[:, 0], together.reads.read_TB[:, n])
        for mine, all_of_them in zip(flatten_state(own), flatten_state(state), strict=True):
            torch.testing.assert_close(mine[0], all_of_them[n], rtol=0, atol=1e-12)


@pytest.mark.slow
@FEW
@given(cases(), st.integers(1, 4))
def test_padding_under_the_mask_changes_nothing(case, padding):
    model, x, _ = case
    T, B, D = x.shape
    padded = torch.cat([x, 100 * inputs(padding, B, D, seed=7)])
    mask = (torch.arange(T + padding) < T).unsqueeze(1).expand(-1, B)
    plain, state = model(x)
    masked, after = model(padded, None, mask)
    torch.testing.assert_close(masked.h_TBH[:T], plain.h_TBH, rtol=0, atol=1e-12)
    torch.testing.assert_close(masked.r_TBQ[:T], plain.r_TBQ, rtol=0, atol=1e-12)
    for mine, theirs in zip(flatten_state(after), flatten_state(state), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


@FEW
@given(cases(), st.integers(1, 4))
def test_padding_under_the_mask_changes_no_gradient(case, padding):
    model, x, _ = case
    T, B, D = x.shape
    padded = torch.cat([x, 100 * inputs(padding, B, D, seed=7)])
    mask = (torch.arange(T + padding) < T).unsqueeze(1).expand(-1, B)
    parameters = [model.controller.W_h.weight, model.W_m.weight]

    def gradients(result):
        hidden, state = result
        total = hidden.h_TBH[:T].sum() + state.memory.content_BKC.square().sum()
        return torch.autograd.grad(total, parameters)

    for mine, theirs in zip(gradients(model(padded, None, mask)), gradients(model(x)), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


@FEW
@given(cases(dtype=torch.float32), st.sampled_from([1.0, 1e3]))
def test_outputs_in_float32_are_finite(case, scale):
    model, x, noise = case
    hidden, state = model(scale * x, None, None, noise)
    parts = [hidden.h_TBH, hidden.r_TBQ, hidden.reads.pi_TBK, *flatten_state(state)[:-1]]
    for part in parts:
        assert part.dtype == torch.float32
        assert part.isfinite().all()


def decided_noise(model, x, cells):
    """Noise that is strong enough to say which cells are read, whatever the rounding."""
    one_hot = torch.nn.functional.one_hot(cells, model.memory_config.cells)
    return TardisNoise(1e4 * one_hot.to(x.dtype), None, None)


@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
@pytest.mark.parametrize("layer_norm", [True, False])
def test_bfloat16_keeps_the_state_in_float32_and_comes_close(estimator, layer_norm):
    model = make_tardis(estimator, H=8, dtype=torch.float32, layer_norm=layer_norm)
    randomise(model, seed=1, scale=0.3)
    x = inputs(12, 3, 3, dtype=torch.float32)
    cells = torch.randint(4, (12, 3), generator=torch.Generator().manual_seed(0))
    noise = decided_noise(model, x, cells)
    exact, state = model(x, None, None, noise)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded, after = model(x, None, None, noise)
    assert torch.equal(rounded.reads.read_TB, cells)
    torch.testing.assert_close(rounded.h_TBH.float(), exact.h_TBH, rtol=0, atol=0.02)
    assert not torch.equal(rounded.h_TBH.float(), exact.h_TBH)
    for mine, theirs in zip(flatten_state(after), flatten_state(state), strict=True):
        assert mine.dtype == theirs.dtype
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0.03)


def test_addresses_are_saved_and_not_trained():
    model = make_tardis()
    assert "address_KA" in model.state_dict()
    assert "address_KA" not in dict(model.named_parameters())
    before = model.address_KA.clone()
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    x = inputs(8, 2, 3)
    hidden, _ = model(x, None, None, noise_of(model, x))
    old = model.W_m.weight.detach().clone()
    (hidden.h_TBH.sum() + hidden.r_TBQ.sum()).backward()
    optimiser.step()
    assert not torch.equal(model.W_m.weight, old)
    assert torch.equal(model.address_KA, before)


@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
def test_counts_of_reads_and_the_last_read_carry_no_gradient(estimator):
    model, x = make_tardis(estimator), inputs(6, 2, 3)
    memory = model(x, None, None, noise_of(model, x))[1].memory
    assert memory.content_BKC.requires_grad
    assert not memory.reads_BK.requires_grad
    assert not memory.last_read_BK.requires_grad


def test_two_models_of_one_seed_have_the_same_addresses():
    assert torch.equal(make_tardis(seed=4).address_KA, make_tardis(seed=4).address_KA)
    assert not torch.equal(make_tardis(seed=4).address_KA, make_tardis(seed=5).address_KA)


def test_noise_of_the_reset_gates_is_logistic():
    """P(logit + noise > 0) is the sigmoid of the logit, and alpha and beta are independent."""
    model = make_tardis(K=2)
    noise = noise_of(model, torch.zeros(100, 200, 3).double()).reset_TB2.flatten(0, 1)
    for logit in (-1.5, 0.0, 0.8):
        share = (noise + logit > 0).double().mean(0).tolist()
        expected = torch.sigmoid(torch.tensor(logit)).item()
        assert share == pytest.approx([expected, expected], abs=0.015)
    assert torch.corrcoef(noise.T)[0, 1].abs() < 0.03


def test_recurrent_dropout_drops_the_share_asked_for_and_scales_the_rest():
    model = make_tardis(recurrent_dropout=0.4)
    mask = noise_of(model, torch.zeros(50, 80, 3).double()).dropout_TBH
    assert mask.unique().tolist() == [0.0, pytest.approx(1 / 0.6, rel=1e-4)]
    assert mask.mean().item() == pytest.approx(1, abs=0.02)
    assert (mask == 0).double().mean().item() == pytest.approx(0.4, abs=0.015)
