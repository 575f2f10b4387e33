"""`memory.vary_cells_from`: a training batch with fewer cells is that of a smaller model."""

import copy
import dataclasses

import pytest
import torch

from tardis_core.build import load_data
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.models.base import flatten_state
from tardis_core.training.loop import Trainer
from tests.support.small_tardis import inputs, make_tardis, noise_of

K = 8


def varying(start=0.0, **options):
    model = make_tardis(K=K, **options)
    model.memory_config = dataclasses.replace(model.memory_config, vary_cells_from=start)
    return model


def first_cells(model, cells):
    """A model that has only the first cells of another."""
    small = copy.deepcopy(model)
    small.memory_config = dataclasses.replace(model.memory_config, cells=cells, vary_cells_from=1.0)
    small.address_KA = model.address_KA[:cells].clone()
    small.addressing.W_u = torch.nn.Linear(cells, len(model.addressing.a), bias=False)
    small.addressing.W_u.weight = torch.nn.Parameter(
        model.addressing.W_u.weight[:, :cells].detach().clone()
    )
    return small


def gradients(model, x, noise, state=None):
    """Of something that depends on all that a sequence makes."""
    hidden, after = model(x, state, None, noise)
    parts = [hidden.h_TBH, hidden.r_TBQ, hidden.reads.pi_TBK.softmax(-1)]
    weights = [inputs(*part.shape, seed=n) for n, part in enumerate(parts)]
    sum((part * weight).sum() for part, weight in zip(parts, weights, strict=True)).backward()
    return parts, after, {name: each.grad for name, each in model.named_parameters()}


def test_every_number_from_a_quarter_to_all_cells_is_drawn_and_no_other():
    model, x = varying(), inputs(1, 1, 3)
    drawn = [noise_of(model, x, seed).read_TBK.shape[-1] for seed in range(120)]
    assert set(drawn) == set(range(2, 9))


def test_by_default_a_batch_has_all_cells_and_nothing_is_drawn_for_it():
    x, model = inputs(4, 2, 3), make_tardis(K=K)
    noise = noise_of(model, x).read_TBK
    assert noise.shape == (4, 2, K)
    model.before_batch(1.0)  # a training of one's own may say that it is at its end
    assert torch.equal(noise, noise_of(model, x).read_TBK)
    model.before_batch(0.0)
    model.memory_config = dataclasses.replace(model.memory_config, vary_cells_from=0.5)
    assert torch.equal(noise, noise_of(model, x).read_TBK)  # training has just begun


@pytest.mark.parametrize("backend", ["reference", "torch", "native"])
@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
@pytest.mark.parametrize("cells", [1, 3])
def test_it_is_the_smaller_model_with_the_same_gradients(estimator, cells, backend):
    model = varying(estimator=estimator, backend=backend)
    x, small = inputs(9, 4, 3), first_cells(model, cells)
    noise = noise_of(small, x)
    parts, state, computed = gradients(model, x, noise)
    expected, small_state, wanted = gradients(small, x, noise)
    for part, other in zip(parts, expected, strict=True):
        torch.testing.assert_close(part, other, rtol=0, atol=1e-10)
    for part, other in zip(flatten_state(state), flatten_state(small_state), strict=True):
        torch.testing.assert_close(part, other, rtol=0, atol=1e-10)
    of_usage = computed.pop("addressing.W_u.weight")
    torch.testing.assert_close(of_usage[:, :cells], wanted.pop("addressing.W_u.weight"))
    assert not of_usage[:, cells:].any()
    assert computed.keys() == wanted.keys()
    for name, gradient in computed.items():
        assert (gradient is None) == (wanted[name] is None), name
        if gradient is not None:
            torch.testing.assert_close(gradient, wanted[name], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("backend", ["reference", "torch", "native"])
def test_a_state_keeps_its_number_of_cells(backend):
    model, x = varying(backend=backend), inputs(8, 2, 3)
    noise = noise_of(first_cells(model, 3), x[:4])
    _, state = model(x[:4], None, None, noise)
    assert state.memory.reads_BK.shape == (2, 3)
    hidden, after = model(x[4:], state)
    assert after.memory.reads_BK.shape == (2, 3)
    assert int(hidden.reads.read_TB.max()) < 3


def test_evaluation_has_all_cells():
    model, x = varying(), inputs(2, 3, 3)
    assert model(x)[0].reads.pi_TBK.shape[-1] == K


def trainer(estimator="reinforce", **settings):
    plain = {"model.hidden": 6, "memory.cells": 4, "training.batch": 4}
    plain |= {"memory.vary_cells_from": 0.0}
    config = make_config(
        "copy", "tardis", estimator, "smoke", overrides=plain | {"task.longest": 3} | settings
    )
    return Trainer(config, load_data(config, None, "auto"))


@pytest.mark.parametrize(
    ("estimator", "settings"),
    [
        ("reinforce", {"training.accumulate": 2}),
        ("counterfactual", {"estimator.window": 3}),
        ("counterfactual", {"estimator.window": 99, "estimator.likeliest": 1}),
        ("gumbel-rao", {}),
    ],
)
def test_it_works_with_whatever_else_changes_a_batch(estimator, settings):
    run = trainer(estimator, **settings)
    losses = [run.step() for _ in range(12)]
    assert all(0 < loss < 10 for loss in losses)


LATE = {"memory.vary_cells_from": 0.5, "training.updates": 40}


def test_fewer_cells_begin_at_that_share_of_the_training(monkeypatch):
    run, cells = trainer(**LATE), []
    draw = run.network.model.draw_noise

    def counted(x, generator):
        noise = draw(x, generator)
        cells.append(noise.read_TBK.shape[-1])
        return noise

    monkeypatch.setattr(run.network.model, "draw_noise", counted)
    for _ in range(40):
        run.step()
    assert set(cells[:20]) == {4}
    assert set(cells[20:]) == {1, 2, 3, 4}


@pytest.mark.slow
def test_a_resumed_training_knows_how_far_it_is():
    run, resumed = trainer(**LATE), trainer(**LATE)
    for _ in range(25):
        run.step()
    resumed.restore(copy.deepcopy(run.state()))
    assert [resumed.step() for _ in range(5)] == [run.step() for _ in range(5)]


def test_a_text_that_continues_cannot_change_its_number_of_cells():
    config = make_config("ptb", scale="smoke", overrides={"memory.vary_cells_from": 0.5})
    with pytest.raises(UserError, match=r"memory.vary_cells_from=0.5 needs sequences .* at 1.0"):
        Trainer(config, load_data(config, None, "standin"))


def test_the_share_is_checked():
    for start in (-0.1, 1.1):
        with pytest.raises(UserError, match=rf"vary_cells_from must be in \[0, 1\], not {start}"):
            make_config("copy", overrides={"memory.vary_cells_from": start})


def test_the_recipe_of_copy_with_reinforce_at_scale_paper_varies_them_in_the_last_quarter():
    reinforce = make_config("copy", estimator="reinforce", scale="paper")
    assert reinforce.memory_settings.vary_cells_from == 0.75
    assert make_config("copy", scale="paper").memory_settings.vary_cells_from == 1.0
