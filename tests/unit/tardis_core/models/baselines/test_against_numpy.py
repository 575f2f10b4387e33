"""Baselines against programs written from their papers alone, with every parameter random."""

import numpy as np
import pytest
import torch

from tardis_core.models.base import MODELS
from tests.support import numpy_baselines
from tests.support.small_baselines import B, D, H, T, assert_same, make, noise_of, run
from tests.support.small_tardis import inputs, parameters_of
from tests.support.systems import ONE_OF_EACH_KIND


@pytest.mark.parametrize("seed", range(3))
def test_zoneout(seed):
    model, x = make("zoneout", seed=seed, zoneout_cell=0.4, zoneout_hidden=0.2), inputs(T, B, D)
    p = parameters_of(model)
    hidden, _ = run(model, x)
    assert_same(hidden.h_TBH, lambda x: numpy_baselines.zoneout(p, x, 0.4, 0.2)["h"], x)
    noise = noise_of(model, x)
    hidden, _ = run(model, x, noise=noise)
    for n in range(B):
        masks = noise.keep_c_TBH[:, n].numpy(), noise.keep_h_TBH[:, n].numpy()
        expected = numpy_baselines.zoneout(p, x[:, n].numpy(), *masks)["h"]
        np.testing.assert_allclose(hidden.h_TBH[:, n].numpy(), expected, rtol=0, atol=1e-10)


def test_zoneout_keeps_its_share():
    model = make("zoneout", zoneout_cell=0.7, zoneout_hidden=0.1, hidden=50)
    noise = noise_of(model, torch.zeros(40, 10, D, dtype=torch.float64))
    assert set(noise.keep_c_TBH.unique().tolist()) == {0.0, 1.0}
    assert noise.keep_c_TBH.mean().item() == pytest.approx(0.7, abs=0.01)
    assert noise.keep_h_TBH.mean().item() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("groups", [1, 3])
def test_clockwork(seed, groups):
    model, x = make("clockwork", seed=seed, groups=groups), inputs(T, B, D)
    p = parameters_of(model)
    hidden, _ = run(model, x)
    assert_same(hidden.h_TBH, lambda x: numpy_baselines.clockwork(p, x, groups)["h"], x)


def test_clockwork_has_no_weights_from_fast_to_slow():
    model = make("clockwork", groups=3, hidden=6)
    weights = model.recurrent_weights()
    assert weights.count_nonzero() == sum(block.numel() for block in model.W_H)
    assert not weights[2:, :2].any()  # the slower groups hear nothing of the fastest
    assert not weights[4:, :4].any()
    assert weights[:2].all()


def test_a_slow_group_stays_between_its_ticks():
    model, x = make("clockwork", groups=3, hidden=6), inputs(9, B, D)
    hidden, _ = run(model, x)
    slow = hidden.h_TBH[:, :, 4:]
    changed = [bool((slow[t] != slow[t - 1]).any()) for t in range(1, 9)]
    assert changed == [False, False, False, True, False, False, False, True]  # at steps 4 and 8


@pytest.mark.parametrize("factors", [0, 4])
def test_mrnn(factors):
    model, x = make("mrnn", factors=factors), inputs(T, B, D)
    p = parameters_of(model)
    hidden, _ = run(model, x)
    assert model.W_hf.weight.shape == (H, factors or H)
    assert_same(hidden.h_TBH, lambda x: numpy_baselines.mrnn(p, x)["h"], x)


@pytest.mark.parametrize("depth", [1, 3])
def test_rhn(depth):
    model, x = make("rhn", depth=depth, recurrent_dropout=0.4), inputs(T, B, D)
    p = parameters_of(model)
    hidden, _ = run(model, x)
    assert_same(hidden.h_TBH, lambda x: numpy_baselines.rhn(p, x, depth)["h"], x)
    dropout = noise_of(model, x)
    noisy, _ = run(model, x, noise=dropout)
    for n in range(B):
        expected = numpy_baselines.rhn(p, x[:, n].numpy(), depth, dropout[:, n].numpy())["h"]
        np.testing.assert_allclose(noisy.h_TBH[:, n].numpy(), expected, rtol=0, atol=1e-10)


def test_the_gates_of_a_new_rhn_pass_the_state_on():
    kind = MODELS.get("rhn")
    model = kind(D, kind.Config(hidden=H, depth=2, transform_bias=-50.0), None, None)
    state = type(model.initial_state(1, torch.zeros(1)))(torch.rand(B, H))
    hidden, _ = run(model, torch.zeros(T, B, D), state)
    torch.testing.assert_close(hidden.h_TBH, state.s_BH.expand(T, -1, -1))


@pytest.mark.parametrize("seed", range(3))
def test_ntm(seed):
    model, x = make("ntm", seed=seed, cells=4, content=3), inputs(T, B, D)
    p = parameters_of(model)
    hidden, state = run(model, x)
    for name, actual in (("h", hidden.h_TBH), ("r", hidden.r_TBQ)):
        assert_same(actual, lambda x, name=name: numpy_baselines.ntm(p, x, 4, 3)[name], x)
    last = [numpy_baselines.ntm(p, x[:, n].numpy(), 4, 3) for n in range(B)]
    for n in range(B):
        np.testing.assert_allclose(state.w_BSK[n].numpy(), last[n]["w"][-1], atol=1e-10)
        np.testing.assert_allclose(state.memory_BKC[n].numpy(), last[n]["memory"], atol=1e-10)


def test_the_weights_of_ntm_are_distributions():
    _, state = run(make("ntm", cells=6, content=3), inputs(T, B, D))
    assert (state.w_BSK >= 0).all()
    torch.testing.assert_close(state.w_BSK.sum(2), torch.ones(B, 2, dtype=torch.float64))


@pytest.mark.parametrize("seed", range(3))
def test_continuous_dntm(seed):
    model, x = make("dntm", seed=seed, cells=4, address=2, content=3), inputs(T, B, D)
    p = parameters_of(model)
    hidden, _ = run(model, x)
    for name, actual in (("h", hidden.h_TBH), ("r", hidden.r_TBQ)):
        assert_same(actual, lambda x, name=name: numpy_baselines.dntm(p, x)[name], x)


@pytest.mark.parametrize("estimator", ONE_OF_EACH_KIND)
@pytest.mark.parametrize("noisy", [False, True])
def test_discrete_dntm(estimator, noisy):
    model = make("dntm-discrete", estimator, cells=4, address=2, content=3)
    x, p = inputs(T, B, D), parameters_of(model)
    noise = noise_of(model, x) if noisy else None
    hidden, _ = run(model, x, noise=noise)
    for n in range(B):
        extra = (noise.read_TBK[:, n].numpy(), noise.write_TBK[:, n].numpy()) if noisy else None
        expected = numpy_baselines.dntm(p, x[:, n].numpy(), discrete=True, noise=extra)
        np.testing.assert_allclose(hidden.h_TBH[:, n].numpy(), expected["h"], rtol=0, atol=1e-10)
        assert hidden.reads.read_TB[:, n].tolist() == expected["read"].tolist()
        assert hidden.reads.written_TB[:, n].tolist() == expected["written"].tolist()


def test_a_soft_batch_of_the_discrete_dntm_is_that_of_the_continuous_one():
    model = make("dntm-discrete", "reinforce", cells=4, address=2, content=3)
    x, p = inputs(T, B, D), parameters_of(model)
    hidden, _ = run(model, x, noise=noise_of(model, x)._replace(soft=True))
    assert_same(hidden.h_TBH, lambda x: numpy_baselines.dntm(p, x)["h"], x)
    assert hidden.reads.soft


def test_a_soft_batch_has_the_exact_gradient_and_nothing_of_the_estimator():
    soft = make("dntm-discrete", "reinforce", cells=4, address=2, content=3)
    exact = make("dntm", cells=4, address=2, content=3)
    exact.load_state_dict(soft.state_dict(), strict=False)
    x = inputs(T, B, D)
    gradients = []
    for model, noise in ((soft, noise_of(soft, x)._replace(soft=True)), (exact, None)):
        hidden, _ = model(x, noise=noise)
        hidden.h_TBH.square().sum().backward()
        gradients.append(model.read_head.W.weight.grad)
    assert gradients[1].any()
    torch.testing.assert_close(*gradients)


def test_the_curriculum_becomes_discrete():
    model, x = make("dntm-discrete", "reinforce", curriculum=8), inputs(2, B, D)
    generator = torch.Generator().manual_seed(0)
    shares = []
    for progress in (0.0, 0.1, 0.4, 0.99):
        model.before_batch(progress)
        shares.append(sum(model.draw_noise(x, generator).soft for _ in range(400)) / 400)
    expected = [1, 1, 1 / 4**0.5, 1 / 8**0.5]  # 1 / sqrt(1 + n), n lowered at each eighth
    assert shares == pytest.approx(expected, abs=0.06)


def test_without_a_curriculum_no_batch_is_soft_and_no_random_number_is_drawn():
    x = inputs(2, B, D)
    noises = []
    for curriculum in (0, 8):
        model = make("dntm-discrete", "gumbel", curriculum=curriculum)
        if not curriculum:
            model.before_batch(0.0)
        noises.append(noise_of(model, x))
    assert not any(noise.soft for noise in noises)
    assert torch.equal(noises[0].read_TBK, noises[1].read_TBK)


def test_the_no_op_cell_gives_nothing_and_keeps_nothing():
    model, x = make("dntm-discrete", "gumbel", cells=2, address=2, content=3), inputs(30, B, D)
    noise = noise_of(model, x)
    hidden, state = run(model, x, noise=noise)
    idle = hidden.reads.read_TB == 1
    assert idle.any()
    assert not idle.all()
    assert not hidden.r_TBQ[idle].any()
    assert hidden.r_TBQ[~idle].any(-1).all()
    assert not state.content_BKC[:, 1].any()


@pytest.mark.parametrize("seed", range(3))
def test_hyper_lstm(seed):
    model = make("hyperlstm", seed=seed, hyper_hidden=4, hyper_embedding=2)
    x, p = inputs(T, B, D), parameters_of(model)
    hidden, _ = run(model, x)
    assert_same(hidden.h_TBH, lambda x: numpy_baselines.hyper_lstm(p, x)["h"], x)


def test_the_scales_of_a_new_hyper_lstm_are_a_tenth():
    kind = MODELS.get("hyperlstm")
    model = kind(D, kind.Config(hidden=H, hyper_hidden=4, hyper_embedding=2), None, None)
    e = model.W_z(torch.randn(6, 4)).unflatten(1, (12, 2)).transpose(0, 1)
    scales = torch.bmm(e, model.W_d)[:8]
    torch.testing.assert_close(scales, torch.full_like(scales, 0.1))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("layers", "layer_norm"), [(2, False), (3, False), (3, True)])
def test_hm_lstm(seed, layers, layer_norm):
    model = make("hmlstm", seed=seed, layers=layers, layer_norm=layer_norm)
    x = inputs(T, B, D)
    p = parameters_of(model)
    hidden, _ = run(model, x)
    assert hidden.h_TBH.shape[2] == model.output_width == layers * H
    assert_same(hidden.h_TBH, lambda x: numpy_baselines.hm_lstm(p, x, layers)["h"], x)


def test_the_reference_of_hm_lstm_meets_every_operation():
    actual = [set(), set(), set()]
    for seed in range(4):
        p = parameters_of(make("hmlstm", seed=seed, layers=3))
        x = inputs(T, B, D).numpy()
        for n in range(B):
            for names in numpy_baselines.hm_lstm(p, x[:, n], 3)["operations"]:
                for layer, name in enumerate(names):
                    actual[layer].add(name)
    assert actual == [{"update", "flush"}, {"update", "copy", "flush"}, {"update", "copy"}]


def test_the_gradient_of_a_new_hm_lstm_with_layer_norm_does_not_explode():
    torch.manual_seed(0)
    kind = MODELS.get("hmlstm")
    model = kind(8, kind.Config(hidden=32, layers=3, layer_norm=True), None, None)
    x = torch.nn.functional.one_hot(torch.randint(8, (150, 8)), 8).float()

    def gradient(steps):
        model.zero_grad()
        hidden, _ = model(x[-steps:])
        hidden.h_TBH[-1].square().sum().backward()
        return torch.nn.utils.get_total_norm([each.grad for each in model.parameters()])

    assert gradient(150) < 10 * gradient(15)


def test_the_slope_changes_the_gradient_and_nothing_else():
    model, x = make("hmlstm", layers=2), inputs(T, B, D)

    def outputs_and_gradient():
        model.zero_grad()
        hidden, _ = model(x)
        hidden.h_TBH.square().sum().backward()
        return hidden.h_TBH.detach(), model.layers[0].W.weight.grad.clone()

    before, steep = outputs_and_gradient(), None
    model.after_batch(None, 0.5)
    assert model.slope.item() == 3.0  # from 1 to 5, half way
    steep = outputs_and_gradient()
    assert torch.equal(before[0], steep[0])
    assert not torch.allclose(before[1], steep[1])


RAGGED = torch.arange(T).unsqueeze(1) < torch.tensor([7, 4, 6])


@pytest.mark.parametrize("given", [None, torch.ones(T, B, dtype=torch.bool), RAGGED])
def test_bn_lstm_in_training(given):
    model, x = make("bnlstm", population_steps=4), inputs(T, B, D)
    hidden, _ = run(model, x, noise=noise_of(model, x), mask=given)
    mask = torch.ones(T, B, dtype=torch.bool) if given is None else given
    expected = numpy_baselines.bn_lstm(parameters_of(model), x.numpy(), mask.numpy())
    np.testing.assert_allclose(hidden.h_TBH.numpy()[mask], expected["h"][mask], rtol=0, atol=1e-10)
    # Step 3 and all later ones share the last row.
    for step in range(4):
        rows = expected["seen"][step : step + 1] if step < 3 else expected["seen"][3:]
        here = mask.numpy()[step : step + 1] if step < 3 else mask.numpy()[3:]
        actual = hidden.statistics
        np.testing.assert_allclose(actual.mean_SW[step], rows[here].mean(0), atol=1e-10)
        np.testing.assert_allclose(actual.variance_SW[step], rows[here].var(0), atol=1e-10)
        assert actual.count_S[step] == here.sum()


def test_the_averages_of_bn_lstm_begin_with_a_batch_and_follow_the_next():
    model, x = make("bnlstm", population_steps=10), inputs(T, B, D)
    first, _ = run(model, x, noise=noise_of(model, x))
    model.after_batch(first, 0.0)
    torch.testing.assert_close(model.mean_SW[:T], first.statistics.mean_SW[:T])
    assert not model.mean_SW[T:].any()  # no sequence was so long
    assert (model.variance_SW[T:] == 1).all()
    second, _ = run(model, x + 1, noise=noise_of(model, x))
    expected = 0.9 * model.mean_SW[:T] + 0.1 * second.statistics.mean_SW[:T]
    model.after_batch(second, 0.1)
    torch.testing.assert_close(model.mean_SW[:T], expected)


def test_bn_lstm_evaluates_by_its_averages():
    """With the averages of a batch, that batch gives the same without noise."""
    model, x = make("bnlstm", population_steps=T), inputs(T, B, D)
    trained, _ = run(model, x, noise=noise_of(model, x))
    before, _ = run(model, x)
    model.after_batch(trained, 0.0)
    after, _ = run(model, x)
    torch.testing.assert_close(after.h_TBH, trained.h_TBH)
    assert not torch.allclose(before.h_TBH, trained.h_TBH)
