"""Epochs: every example at most once, like lengths together, any batch at any time."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tardis_core.tasks.sampling import EpochSampler, epoch_batches, ragged_indices


@settings(max_examples=50)
@given(st.integers(1, 400), st.integers(1, 64), st.integers(0, 5))
def test_an_epoch_has_no_example_twice_and_leaves_out_less_than_a_batch(examples, batch, seed):
    lengths = np.arange(examples) % 7 + 1
    result = epoch_batches(lengths, batch, np.random.default_rng(seed))
    used = result.ravel()
    assert len(set(used.tolist())) == len(used)
    assert examples - len(used) < min(batch, examples)


def test_sequences_of_a_batch_have_like_lengths():
    lengths = np.random.default_rng(0).integers(1, 100, 1000)
    batches = epoch_batches(lengths, 10, np.random.default_rng(1))
    spread = np.ptp(lengths[batches], axis=1).mean()
    assert spread < 15  # ten lengths drawn at random would differ by about 80


def test_batches_can_be_asked_for_in_any_order():
    def sampler():
        return EpochSampler(np.ones(30, int), 8, lambda epoch: np.random.default_rng([3, epoch]))

    forward = [sampler().batch(n) for n in range(9)]  # three to an epoch
    one = sampler()
    for number in (8, 0, 5, 5, 2):
        np.testing.assert_array_equal(one.batch(number), forward[number])
    assert not np.array_equal(forward[0], forward[3])


def test_fewer_examples_than_a_batch_still_make_one():
    assert len(EpochSampler(np.ones(3, int), 8, np.random.default_rng).batch(5)) == 3


def test_ragged_indices_by_hand():
    places, rows = ragged_indices(np.array([5, 0, 9]), np.array([2, 1, 0]))
    assert places.tolist() == [5, 6, 0]
    assert rows.tolist() == [0, 0, 1]
