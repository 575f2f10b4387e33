"""The whole model in float64 against an independent reference written from the paper."""

import itertools

import numpy as np
import pytest
import torch

from tardis_core.build import build_network
from tardis_core.config import make_config
from tardis_core.models.base import MODELS
from tardis_core.models.controller import LstmConfig
from tardis_core.tasks.base import Signature
from tests.support import numpy_tardis
from tests.support.small_tardis import (
    TOLERANCE,
    array,
    inputs,
    make_tardis,
    noise_arguments,
    noise_of,
    parameters_of,
    randomise,
    samples_of,
    slice_noise,
)

SIZES = {
    "T<K": dict(T=3, B=2, K=6),
    "T=K": dict(T=4, B=2, K=4),
    "T>K": dict(T=11, B=3, K=3),
    "one cell": dict(T=4, B=2, K=1),
    "two cells": dict(T=6, B=2, K=2),
    "all ones": dict(T=3, B=1, K=1, D=1, H=1, A=1, C=1, P=1),
    "odd": dict(T=9, B=1, K=5, D=1, H=7, A=3, C=1, P=1),
    "content wider than hidden": dict(T=7, B=5, K=3, D=4, H=2, A=1, C=5, P=6),
}


def assert_close(actual, expected):
    np.testing.assert_allclose(array(actual), expected, rtol=TOLERANCE, atol=TOLERANCE)


def reference(model, x, **arguments):
    return numpy_tardis.tardis(
        parameters_of(model),
        array(x),
        K=model.memory_config.cells,
        C=model.memory_config.content,
        reset_gates=model.config.reset_gates,
        layer_norm=model.config.layer_norm,
        **arguments,
    )


def assert_same_hidden(hidden, expected, mask=None):
    """Equal at all steps that exist."""
    exists = np.ones(expected["read"].shape, bool) if mask is None else array(mask)
    assert_close(hidden.h_TBH[exists], expected["h"][exists])
    assert_close(hidden.r_TBQ[exists], expected["r"][exists])
    assert_close(hidden.reads.pi_TBK[exists], expected["pi"][exists])
    np.testing.assert_array_equal(hidden.reads.read_TB[exists], expected["read"][exists])
    np.testing.assert_array_equal(hidden.reads.written_TB[exists], expected["written"][exists])
    if hidden.reset_TB2 is None:
        assert (expected["reset"][exists] == 1).all()
    else:
        assert_close(hidden.reset_TB2[exists], expected["reset"][exists])


def assert_same_state(state, expected):
    for mine, theirs in zip(samples_of(state), expected, strict=True):
        for name in ("h", "c", "content", "counts"):
            np.testing.assert_allclose(
                getattr(mine, name), getattr(theirs, name), rtol=TOLERANCE, atol=TOLERANCE
            )
        assert (mine.last, mine.steps) == (theirs.last, theirs.steps)


def assert_agrees(model, x, mask=None, noise=None):
    expected = reference(
        model, x, mask_TB=None if mask is None else array(mask), **noise_arguments(noise)
    )
    hidden, state = model(x, None, mask, noise)
    assert_same_hidden(hidden, expected, mask)
    assert_same_state(state, expected["state"])


@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
@pytest.mark.parametrize(
    ("reset_gates", "layer_norm", "dropout", "noisy"),
    list(itertools.product([True, False], [True, False], [0.0, 0.4], [True, False])),
)
def test_model_agrees_with_the_reference_under_every_option(
    estimator, reset_gates, layer_norm, dropout, noisy
):
    model = make_tardis(
        estimator, reset_gates=reset_gates, layer_norm=layer_norm, recurrent_dropout=dropout
    )
    x = inputs(T=9, B=3, D=3)
    noise = noise_of(model, x) if noisy else None
    if noisy:
        assert (noise.reset_TB2 is None) == (not reset_gates)
        assert (noise.dropout_TBH is None) == (dropout == 0)
    assert_agrees(model, x, noise=noise)


@pytest.mark.parametrize("noisy", [True, False])
@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_model_agrees_with_the_reference_at_every_size(size, layer_norm, noisy):
    sizes = dict(SIZES[size])
    T, B = sizes.pop("T"), sizes.pop("B")
    model = make_tardis(layer_norm=layer_norm, recurrent_dropout=0.3, seed=3, **sizes)
    x = inputs(T, B, sizes.get("D", 3), seed=4)
    assert_agrees(model, x, noise=noise_of(model, x) if noisy else None)


@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
@pytest.mark.parametrize("noisy", [True, False])
def test_masked_steps_leave_the_state_as_it_is(estimator, noisy):
    model = make_tardis(estimator, K=3, layer_norm=True, recurrent_dropout=0.2)
    T, lengths = 8, torch.tensor([8, 0, 5, 1])
    x = inputs(T, len(lengths), 3)
    mask = torch.arange(T).unsqueeze(1) < lengths
    assert_agrees(model, x, mask, noise_of(model, x) if noisy else None)


def test_masked_steps_in_the_middle_leave_the_state_as_it_is():
    model = make_tardis(K=3, layer_norm=True)
    x = inputs(10, 4, 3)
    mask = torch.rand(10, 4, generator=torch.Generator().manual_seed(5)) < 0.6
    assert 0 < int(mask.sum()) < mask.numel()
    assert_agrees(model, x, mask, noise_of(model, x))


@pytest.mark.parametrize("cut", [1, 3, 4, 8])
def test_two_parts_with_the_state_carried_equal_the_whole(cut):
    model = make_tardis(K=4, layer_norm=True, recurrent_dropout=0.3)
    x = inputs(9, 2, 3)
    noise = noise_of(model, x)
    expected = reference(model, x, **noise_arguments(noise))
    first, state = model(x[:cut], None, None, slice_noise(noise, 0, cut))
    second, state = model(x[cut:], state, None, slice_noise(noise, cut, 9))
    assert_same_hidden(first, {name: part[:cut] for name, part in expected.items()})
    assert_same_hidden(second, {name: part[cut:] for name, part in expected.items()})
    assert_same_state(state, expected["state"])


def test_the_reference_goes_on_from_the_models_state():
    model = make_tardis(K=3)
    _, state = model(inputs(5, 2, 3))
    x = inputs(4, 2, 3, seed=1)
    expected = reference(model, x, state=samples_of(state))
    hidden, after = model(x, state)
    assert_same_hidden(hidden, expected)
    assert_same_state(after, expected["state"])


def directional_difference(model, x, noise, weight, direction, step=1e-6):
    """Of sum(weight h), by the reference alone."""
    values = []
    for sign in (1, -1):
        p = parameters_of(model)
        p |= {name: p[name] + sign * step * change for name, change in direction.items()}
        result = numpy_tardis.tardis(
            p, array(x), K=model.memory_config.cells, C=model.memory_config.content, **noise
        )
        values.append((weight * result["h"]).sum() + (weight[..., :1] * result["r"]).sum())
    return (values[0] - values[1]) / (2 * step)


@pytest.mark.parametrize("prefix", ["controller.", "W_m."])
def test_gradient_through_the_memory_agrees_with_differences_of_the_reference(prefix):
    """With the reads held (REINFORCE), time and memory are all the gradient passes through."""
    model = make_tardis("reinforce", K=3)
    x = inputs(8, 2, 3)
    noise = noise_of(model, x)
    weight = inputs(8, 2, 5, seed=9)
    hidden, _ = model(x, None, None, noise)
    ((weight * hidden.h_TBH).sum() + (weight[..., :1] * hidden.r_TBQ).sum()).backward()
    chosen = {k: v for k, v in model.named_parameters() if k.startswith(prefix)}
    rng = np.random.default_rng(0)
    direction = {name: rng.standard_normal(value.shape) for name, value in chosen.items()}
    analytic = sum((direction[name] * array(value.grad)).sum() for name, value in chosen.items())
    numeric = directional_difference(model, x, noise_arguments(noise), array(weight), direction)
    assert abs(analytic) > 1e-2
    assert analytic == pytest.approx(numeric, rel=1e-6)


def small_network(signature, **overrides):
    config = make_config(
        "copy",
        "tardis",
        "reinforce",
        "smoke",
        seed=3,
        overrides={
            "model.hidden": 6,
            "model.head": 4,
            "memory.cells": 3,
            "memory.address": 2,
            "memory.content": 4,
            **overrides,
        },
    )
    return randomise(build_network(config, signature).double(), seed=8)


def part_of(network, prefix):
    p = parameters_of(network)
    return {name.removeprefix(prefix): v for name, v in p.items() if name.startswith(prefix)}


@pytest.mark.parametrize("noisy", [True, False])
@pytest.mark.parametrize("embedding", [0, 3])
def test_network_logits_agree_with_the_reference(embedding, noisy):
    signature = Signature(inputs=5, symbols=True, outputs=4, bits=False)
    network = small_network(signature, **{"model.embedding": embedding})
    symbols = torch.randint(5, (7, 3), generator=torch.Generator().manual_seed(0))
    table = part_of(network, "encoder.").get("embedding.weight", np.eye(5))
    x = table[symbols.numpy()]
    generator = torch.Generator().manual_seed(6) if noisy else None
    noise = None
    if noisy:
        noise = network.model.draw_noise(torch.from_numpy(x), torch.Generator().manual_seed(6))
    expected = reference(network.model, torch.from_numpy(x), **noise_arguments(noise))
    prediction, _ = network(symbols, generator=generator)
    h, r = expected["h"], expected["r"]
    assert_close(prediction.logits_TBO, numpy_tardis.output_logits(part_of(network, "head."), h, r))
    assert_close(
        prediction.memory_logits_TBO,
        numpy_tardis.memory_logits(part_of(network, "memory_head."), r, x),
    )


def make_lstm(D=3, H=5, **options):
    model = MODELS.get("lstm")(D, LstmConfig(hidden=H, **options), None, None)
    return randomise(model.double(), seed=2)


def as_torch_lstm(model, D, H):
    """torch.nn.LSTM with the same weights: its gates stand in the order i, f, g, o."""
    theirs = torch.nn.LSTM(D, H).double()
    mine = model.controller

    def reorder(rows):
        f, i, o, g = rows.chunk(4)
        return torch.cat([i, f, g, o])

    with torch.no_grad():
        theirs.weight_hh_l0.copy_(reorder(mine.W_h.weight))
        theirs.weight_ih_l0.copy_(reorder(mine.W_x.weight))
        theirs.bias_ih_l0.copy_(reorder(mine.b))
        theirs.bias_hh_l0.zero_()
    return theirs


@pytest.mark.parametrize(("T", "B", "D", "H"), [(7, 3, 3, 5), (1, 1, 1, 1), (12, 2, 5, 3)])
def test_lstm_without_layer_norm_is_torchs(T, B, D, H):
    model = make_lstm(D, H)
    x = inputs(T, B, D)
    hidden, state = model(x)
    h_TBH, (h_1BH, c_1BH) = as_torch_lstm(model, D, H)(x)
    assert_close(hidden.h_TBH, array(h_TBH))
    assert_close(state.h_BH, array(h_1BH[0]))
    assert_close(state.c_BH, array(c_1BH[0]))


@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_lstm_agrees_with_the_reference(layer_norm, dropout):
    model = make_lstm(layer_norm=layer_norm, recurrent_dropout=dropout)
    x = inputs(7, 3, 3)
    noise = model.draw_noise(x, torch.Generator().manual_seed(1))
    mask = torch.arange(7).unsqueeze(1) < torch.tensor([7, 2, 4])
    p = {k.removeprefix("controller."): v for k, v in parameters_of(model).items()}
    h, last_h, last_c = numpy_tardis.lstm(
        p,
        array(x),
        layer_norm=layer_norm,
        dropout_TBH=array(noise.dropout_TBH),
        mask_TB=array(mask),
    )
    hidden, state = model(x, None, mask, noise)
    exists = array(mask)
    assert_close(hidden.h_TBH[exists], h[exists])
    assert_close(state.h_BH, last_h)
    assert_close(state.c_BH, last_c)
