"""The parts of TARDIS around its step: noise, the number of cells, and the choice of a kernel."""

import dataclasses

import pytest
import torch

from tests.support.small_tardis import inputs, make_tardis, noise_of


def varying(cells, start):
    model = make_tardis(K=cells)
    model.memory_config = dataclasses.replace(model.memory_config, vary_cells_from=start)
    return model


def numbers_of_cells(model, draws=80):
    x = inputs(1, 1, 3)
    return {noise_of(model, x, seed).read_TBK.shape[-1] for seed in range(draws)}


def test_noise_that_leaves_no_choice_at_one_step_of_each_sequence():
    model, x = make_tardis(K=4), inputs(5, 3, 3)
    noise, step, cell = noise_of(model, x), torch.tensor([0, 2, 4]), torch.tensor([3, 1, 2])
    forced = noise.reading(step, cell)
    assert torch.equal(model(x, None, None, forced)[0].reads.read_TB[step, range(3)], cell)
    changed = forced.read_TBK != noise.read_TBK
    assert changed.nonzero().tolist() == [[0, 0, 3], [2, 1, 1], [4, 2, 2]]
    assert torch.equal(forced.reset_TB2, noise.reset_TB2)


@pytest.mark.parametrize(("cells", "fewest"), [(1, 1), (2, 1), (4, 1), (8, 2)])
def test_batches_have_a_quarter_to_all_of_the_cells_once_they_vary(cells, fewest):
    model = varying(cells, start=0.5)
    assert numbers_of_cells(model, draws=5) == {cells}
    model.before_batch(0.5)
    assert numbers_of_cells(model) == set(range(fewest, cells + 1))


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_a_state_keeps_its_number_of_cells_and_evaluation_has_all(backend):
    model, x = make_tardis(K=5, backend=backend), inputs(6, 2, 3)
    few = noise_of(make_tardis(K=2), x)
    _, state = model(x, None, None, few)
    assert state.memory.reads_BK.shape == (2, 2)
    assert model(x, state)[1].memory.reads_BK.shape == (2, 2)
    assert model(x)[1].memory.reads_BK.shape == (2, 5)


def test_a_kernel_returns_what_the_readable_model_returns():
    x = inputs(7, 2, 3)
    mine, theirs = (make_tardis(backend=name) for name in ("reference", "native"))
    noise = noise_of(mine, x)
    for one, other in zip(mine(x, None, None, noise), theirs(x, None, None, noise), strict=True):
        assert type(one) is type(other)
    hidden, expected = theirs(x, None, None, noise)[0], mine(x, None, None, noise)[0]
    torch.testing.assert_close(hidden.h_TBH, expected.h_TBH, rtol=0, atol=1e-10)
    assert torch.equal(hidden.reads.read_TB, expected.reads.read_TB)


def test_its_reads_are_all_that_it_chooses():
    model = make_tardis()
    assert (model.discrete, model.reads_alone, model.two_parts) == (True, True, False)
    assert list(model.choosing()) == [model.addressing]
