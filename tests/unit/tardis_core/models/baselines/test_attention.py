"""Word-by-word attention, one way and two ways, against NumPy and in the whole network."""

import numpy as np
import pytest
import torch

from tardis_core.build import build_network, load_data
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.models.base import MODELS
from tardis_core.models.baselines.attention import Places, join, keep
from tardis_core.tasks.base import Signature
from tardis_core.training.loop import Trainer
from tests.support import numpy_baselines
from tests.support.small_tardis import inputs, parameters_of, randomise

T, D, H = 8, 3, 4
ENDS = [3, 0, 6, 8]  # the step at which the second text begins; 8: never
B = len(ENDS)
BOUNDARY = torch.arange(T).unsqueeze(1) == torch.tensor(ENDS)
REFERENCES = {"attention": numpy_baselines.attention, "attention-two-way": numpy_baselines.two_way}
both = pytest.mark.parametrize("name", REFERENCES)


def make(name, seed=0, **settings):
    kind = MODELS.get(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind(D, kind.Config(hidden=H, **settings), None, None)
    return randomise(model.double(), seed)


@both
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_reference(name, seed):
    model, x = make(name, seed), inputs(T, B, D)
    with torch.no_grad():
        hidden, _ = model(x, boundary_TB=BOUNDARY)
    p = parameters_of(getattr(model, "one_way", model))
    for n, end in enumerate(ENDS):
        expected = REFERENCES[name](p, x[:, n].numpy(), end)
        np.testing.assert_allclose(hidden.h_TBH[:, n].numpy(), expected, rtol=0, atol=1e-10)


@both
@pytest.mark.parametrize("cut", [1, 4, 7])
def test_a_pair_cut_anywhere_is_the_same_pair(name, cut):
    model, x = make(name), inputs(T, B, D)
    whole, _ = model(x, boundary_TB=BOUNDARY)
    first, state = model(x[:cut], boundary_TB=BOUNDARY[:cut])
    second, _ = model(x[cut:], state, boundary_TB=BOUNDARY[cut:])
    actual = torch.cat([first.h_TBH, second.h_TBH])
    torch.testing.assert_close(actual, whole.h_TBH, rtol=0, atol=1e-12)


@both
def test_padding_in_front_changes_nothing(name):
    """As snli pads: sequences end together, and what stands before them is masked."""
    model, x = make(name), inputs(T, 1, D)
    boundary = torch.arange(T).unsqueeze(1) == 3
    alone, _ = model(x, boundary_TB=boundary)
    noise = inputs(5, 1, D, seed=9)
    mask = torch.arange(T + 5).unsqueeze(1) >= 5
    padded, _ = model(
        torch.cat([noise, x]),
        mask_TB=mask,
        boundary_TB=torch.cat([torch.ones(5, 1, dtype=torch.bool), boundary]),
    )
    torch.testing.assert_close(padded.h_TBH[5:], alone.h_TBH, rtol=0, atol=1e-12)


@both
def test_a_second_boundary_is_a_word_like_any_other(name):
    model, x = make(name), inputs(T, 1, D)
    once, twice = (torch.zeros(T, 1, dtype=torch.bool) for _ in range(2))
    once[2] = twice[2] = twice[5] = True
    assert torch.equal(model(x, boundary_TB=once)[0].h_TBH, model(x, boundary_TB=twice)[0].h_TBH)


def test_what_is_not_asked_for_is_not_read_again():
    model, x = make("attention-two-way"), inputs(T, B, D)
    whole, state = model(x, boundary_TB=BOUNDARY)
    asked = torch.zeros(T, B, dtype=torch.bool)
    asked[-1] = True
    actual, other = model(x, boundary_TB=BOUNDARY, asked_TB=asked)
    torch.testing.assert_close(actual.h_TBH[-1], whole.h_TBH[-1], rtol=0, atol=1e-12)
    assert not actual.h_TBH[:-1, :, H:].any()
    assert torch.equal(other.second.y_BLH, state.second.y_BLH)


@both
def test_of_a_long_text_the_beginning_is_seen(name):
    """The same whether the places fill in one call or in several."""
    model, x = make(name, longest=2), inputs(T, 1, D)
    boundary = torch.arange(T).unsqueeze(1) == 5
    whole, _ = model(x, boundary_TB=boundary)
    state, parts = None, []
    for t in range(T):
        result, state = model(x[t : t + 1], state, boundary_TB=boundary[t : t + 1])
        parts.append(result.h_TBH)
    torch.testing.assert_close(torch.cat(parts), whole.h_TBH, rtol=0, atol=1e-12)
    unlimited = make(name, longest=9)
    assert not torch.allclose(unlimited(x, boundary_TB=boundary)[0].h_TBH, whole.h_TBH)


def test_places_are_joined_and_kept_in_their_order():
    new = torch.arange(1.0, 7).reshape(3, 2, 1)  # steps of two texts: 1 3 5 and 2 4 6
    there = torch.tensor([[True, False], [False, True], [True, True]])
    places = join(None, new, there, longest=4)
    kept = keep(places, 4)
    assert kept.y_BLH.squeeze(2).tolist() == [[1, 5, 0, 0], [4, 6, 0, 0]]
    assert kept.count_B.tolist() == [2, 2]
    more = keep(join(kept, new, there, longest=3 + 1), 4)
    assert more.y_BLH.squeeze(2).tolist() == [[1, 5, 1, 5], [4, 6, 4, 6]]
    full = join(more, new, there, longest=4)
    assert full.there_BS.sum(1).tolist() == [4, 4]
    assert torch.equal(keep(full, 4).y_BLH, more.y_BLH)
    assert isinstance(places, Places)


@both
def test_a_task_of_one_part_is_refused(name):
    with pytest.raises(UserError, match=rf"model '{name}' reads sequences of two parts.*'ptb'"):
        build_network(make_config("ptb", name), Signature(5, True, 5, False))


@both
def test_the_separator_of_snli_ends_the_premise(name):
    config = make_config("snli", name, scale="smoke", overrides={"training.batch": 4})
    trainer = Trainer(config, load_data(config, source="standin"))
    batch = trainer.task.train_batch(0)
    boundary = trainer.network.encoder.boundary_TB(batch.inputs)
    assert (boundary.sum(0) == 1).all()
    _, state = trainer.network(batch.inputs, None, batch.mask_TB)
    state = getattr(state, "ahead", state)
    premise = [
        int((mask & (torch.arange(len(mask)) < at)).sum())
        for mask, at in zip(batch.mask_TB.T, boundary.int().argmax(0), strict=True)
    ]
    assert state.first.count_B.tolist() == premise
    assert state.second_B.tolist() == [1, 1, 1, 1]
