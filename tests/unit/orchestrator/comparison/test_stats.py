"""Intervals, tests and curves against values that can be worked out by hand."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.comparison.stats import bootstrap_interval, expected_best, permutation_test

numbers = st.lists(st.floats(-100, 100), min_size=1, max_size=5)


def test_an_interval_holds_the_mean_and_shrinks_with_more_values():
    rng = np.random.default_rng(1)
    few, many = rng.normal(3, 1, 10), rng.normal(3, 1, 400)
    for sample in (few, many):
        low, high = bootstrap_interval(sample)
        assert low < sample.mean() < high
    # The error of the mean of 400 values is 1/20; 1.96 of it on either side.
    low, high = bootstrap_interval(many)
    assert high - low == pytest.approx(2 * 1.96 * many.std() / 20, rel=0.05)


def test_intervals_keep_their_promise():
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(200):
        low, high = bootstrap_interval(rng.normal(0, 1, 30))
        hits += low < 0 < high
    assert hits / 200 > 0.88  # percentile intervals of 30 values cover a little less than 95 %


def test_one_value_has_no_interval():
    assert np.isnan(bootstrap_interval([1.0])).all()


def test_the_least_chance_that_a_number_of_pairs_can_give():
    assert permutation_test([1.0, 2.0, 3.0]) == 2 / 2**3
    assert permutation_test([1.0] * 5) == 2 / 2**5
    assert permutation_test([0.1] * 20) == pytest.approx(0, abs=1e-3)


def test_pairs_that_differ_in_nothing():
    assert permutation_test([0.0, 0.0]) == 1
    assert permutation_test([1.0, -1.0]) == 1


@given(numbers)
def test_the_direction_does_not_matter(differences):
    there = permutation_test(differences)
    assert there == permutation_test([-each for each in differences])
    assert 2 / 2 ** len(differences) <= there <= 1


@given(numbers, st.sampled_from(["lower", "higher"]))
def test_the_expected_best_is_the_mean_over_all_draws(values, better):
    pick = min if better == "lower" else max
    curve = expected_best(values, better)
    for draws in range(1, min(len(values), 4) + 1):
        every = [pick(chosen) for chosen in product(values, repeat=draws)]
        assert curve[draws - 1] == pytest.approx(np.mean(every), abs=1e-9)
