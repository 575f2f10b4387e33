"""`memory.fewest`: a batch of training with fewer cells is that of a smaller model."""

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

K = 5


def with_fewest(fewest, **options):
    model = make_tardis(K=K, **options)
    model.memory_config = dataclasses.replace(model.memory_config, fewest=fewest)
    return model


def first_cells(model, cells):
    """A model that has only the first cells of another."""
    made = copy.deepcopy(model)
    made.memory_config = dataclasses.replace(model.memory_config, cells=cells, fewest=1.0)
    made.address_KA = model.address_KA[:cells].clone()
    made.addressing.W_u = torch.nn.Linear(cells, len(model.addressing.a), bias=False)
    made.addressing.W_u.weight = torch.nn.Parameter(
        model.addressing.W_u.weight[:, :cells].detach().clone()
    )
    return made


def gradients(model, x, noise, state=None):
    """Of something that depends on all that a sequence makes."""
    hidden, after = model(x, state, None, noise)
    parts = [hidden.h_TBH, hidden.r_TBQ, hidden.reads.pi_TBK.softmax(-1)]
    weights = [inputs(*part.shape, seed=n) for n, part in enumerate(parts)]
    sum((part * weight).sum() for part, weight in zip(parts, weights, strict=True)).backward()
    return parts, after, {name: each.grad for name, each in model.named_parameters()}


def test_every_number_of_cells_is_drawn_and_no_other():
    model, x = with_fewest(0.4), inputs(1, 1, 3)
    drawn = [noise_of(model, x, seed).read_TBK.shape[-1] for seed in range(60)]
    assert set(drawn) == {2, 3, 4, 5}


def test_without_it_all_cells_are_there_and_the_noise_is_as_it_was():
    x = inputs(4, 2, 3)
    plain = noise_of(with_fewest(1.0), x).read_TBK
    assert plain.shape == (4, 2, K)
    assert torch.equal(plain, noise_of(make_tardis(K=K), x).read_TBK)


@pytest.mark.parametrize("backend", ["reference", "torch", "native"])
@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
@pytest.mark.parametrize("cells", [1, 3])
def test_it_is_the_smaller_model_with_the_same_gradients(estimator, cells, backend):
    model = with_fewest(cells / K, estimator=estimator, backend=backend)
    x, small = inputs(9, 4, 3), first_cells(model, cells)
    noise = noise_of(small, x)
    parts, state, made = gradients(model, x, noise)
    expected, small_state, wanted = gradients(small, x, noise)
    for part, other in zip(parts, expected, strict=True):
        torch.testing.assert_close(part, other, rtol=0, atol=1e-10)
    for part, other in zip(flatten_state(state), flatten_state(small_state), strict=True):
        torch.testing.assert_close(part, other, rtol=0, atol=1e-10)
    of_usage = made.pop("addressing.W_u.weight")
    torch.testing.assert_close(of_usage[:, :cells], wanted.pop("addressing.W_u.weight"))
    assert not of_usage[:, cells:].any()
    assert made.keys() == wanted.keys()
    for name, gradient in made.items():
        assert (gradient is None) == (wanted[name] is None), name
        if gradient is not None:
            torch.testing.assert_close(gradient, wanted[name], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("backend", ["reference", "torch", "native"])
def test_a_state_keeps_its_number_of_cells(backend):
    model, x = with_fewest(0.6, backend=backend), inputs(8, 2, 3)
    noise = noise_of(first_cells(model, 3), x[:4])
    _, state = model(x[:4], None, None, noise)
    assert state.memory.reads_BK.shape == (2, 3)
    hidden, after = model(x[4:], state)
    assert after.memory.reads_BK.shape == (2, 3)
    assert int(hidden.reads.read_TB.max()) < 3


def test_evaluation_has_all_cells():
    model, x = with_fewest(0.1), inputs(2, 3, 3)
    assert model(x)[0].reads.pi_TBK.shape[-1] == K


def trainer(**settings):
    plain = {"model.hidden": 6, "memory.cells": 4, "memory.fewest": 0.25, "training.batch": 4}
    config = make_config(
        "copy", "tardis", "reinforce", "smoke", overrides=plain | {"task.longest": 3} | settings
    )
    return Trainer(config, load_data(config, None, "auto"))


@pytest.mark.parametrize(
    "settings",
    [{"training.accumulate": 4}, {"estimator.tried": 3}, {"estimator.tried": 99}],
    ids=["parts", "tried", "tried from the start"],
)
def test_it_goes_with_what_else_changes_a_batch(settings):
    made = trainer(**settings)
    losses = [made.step() for _ in range(12)]
    assert all(0 < loss < 10 for loss in losses)


LATE = {"memory.fewest_from": 0.5, "training.updates": 40}


def test_they_may_begin_late_in_the_training(monkeypatch):
    made, cells = trainer(**LATE), []
    draw = made.network.model.draw_noise

    def counted(x, generator):
        noise = draw(x, generator)
        cells.append(noise.read_TBK.shape[-1])
        return noise

    monkeypatch.setattr(made.network.model, "draw_noise", counted)
    for _ in range(40):
        made.step()
    assert set(cells[:20]) == {4}
    assert set(cells[20:]) == {1, 2, 3, 4}


def test_a_training_that_is_taken_up_again_knows_how_late_it_is():
    made, again = trainer(**LATE), trainer(**LATE)
    for _ in range(25):
        made.step()
    again.restore(copy.deepcopy(made.state()))
    assert [again.step() for _ in range(5)] == [made.step() for _ in range(5)]


def test_a_text_that_goes_on_cannot_change_its_number_of_cells():
    config = make_config("ptb", scale="smoke", overrides={"memory.fewest": 0.5})
    with pytest.raises(
        UserError, match=r"memory.fewest=0.5 needs sequences that begin anew.* at 1.0"
    ):
        Trainer(config, load_data(config, None, "standin"))


@pytest.mark.parametrize("fewest", [0, 1.5])
def test_the_number_is_checked(fewest):
    with pytest.raises(UserError, match=rf"memory.fewest must be in \(0, 1\], not {fewest}"):
        make_config("copy", overrides={"memory.fewest": fewest})


@pytest.mark.parametrize("start", [-0.1, 1])
def test_so_is_when_they_begin(start):
    with pytest.raises(UserError, match=r"memory.fewest_from must be at least 0 and below 1, not"):
        make_config("copy", overrides={"memory.fewest_from": start})
