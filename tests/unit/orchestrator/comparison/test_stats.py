"""Intervals, tests and curves against values that can be worked out by hand, or by scipy."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from orchestrator.comparison.stats import (
    expected_best,
    holm,
    interquartile_mean,
    least_p,
    mean_interval,
    permutation_test,
    probability_of_improvement,
    seeds_needed,
    t_test_power,
)

# Multiples of 1/8 add up without rounding.
numbers = st.lists(st.integers(-800, 800).map(lambda n: n / 8), min_size=1, max_size=5)


def test_a_symmetric_sample_has_students_interval():
    sample = [1.0, 2.0, 3.0, 4.0, 5.0]
    expected = stats.ttest_1samp(sample, 0).confidence_interval()
    assert mean_interval(sample) == pytest.approx((expected.low, expected.high))


def test_the_interval_is_the_set_of_means_that_halls_statistic_accepts():
    sample = np.array([0.1, 0.2, 0.25, 0.4, 1.9])
    skewness = stats.skew(sample) * (4 / 5) ** 1.5  # with the deviation of n - 1
    quantile = stats.t.ppf(0.975, 4)
    for mean, sign in zip(mean_interval(sample), (1, -1), strict=True):
        t = (sample.mean() - mean) / sample.std(ddof=1)
        g = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 30
        assert np.sqrt(5) * g == pytest.approx(sign * quantile)


def test_the_interval_reaches_farther_on_the_side_of_the_long_tail():
    sample = np.array([0.1, 0.2, 0.25, 0.4, 1.9])
    low, high = mean_interval(sample)
    assert high - sample.mean() > 1.5 * (sample.mean() - low)
    assert mean_interval(-sample) == pytest.approx((-high, -low))


def test_more_confidence_takes_a_wider_interval():
    sample = [0.1, 0.4, 0.2]
    (low, high), (lower, higher) = mean_interval(sample, 0.5), mean_interval(sample, 0.95)
    assert lower < low < high < higher


@pytest.mark.parametrize(
    ("draw", "least"),
    [
        (lambda rng, shape: rng.normal(size=shape), 0.93),
        (lambda rng, shape: rng.gamma(4, size=shape) - 4, 0.93),
        (lambda rng, shape: rng.exponential(size=shape) - 1, 0.88),
    ],
    ids=["normal", "skewness 1", "exponential"],
)
def test_intervals_of_few_values_cover_the_mean(draw, least):
    rng = np.random.default_rng(0)
    for count in (3, 5, 10, 20):
        intervals = np.array([mean_interval(each) for each in draw(rng, (1000, count))])
        covered = ((intervals[:, 0] <= 0) & (intervals[:, 1] >= 0)).mean()
        assert least <= covered <= 0.97


def test_one_value_has_no_interval_and_equal_values_have_no_width():
    assert np.isnan(mean_interval([1.0])).all()
    assert mean_interval([0.1, 0.1, 0.1]) == pytest.approx((0.1, 0.1))
    assert mean_interval([0.0, 0.0]) == (0.0, 0.0)


@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e9])
def test_values_are_equal_if_they_differ_by_rounding_alone(factor):
    rounded, spread = factor * np.array([1, 1 + 1e-14]), factor * np.array([1, 1 + 1e-6])
    low, high = mean_interval(rounded)
    assert low == high
    low, high = mean_interval(spread)
    assert low < high
    assert seeds_needed(rounded) == 6  # the least that the permutation test can use


def test_a_little_skewness_moves_the_interval_a_little():
    sample = np.array([1.0, 2.0, 3.0, 4.0, 5.0 + 1e-3])
    student = stats.ttest_1samp(sample, 0).confidence_interval()
    for hall, t in zip(mean_interval(sample), student, strict=True):
        assert hall != t
        assert hall == pytest.approx(t, abs=0.01)


def test_the_least_p_that_a_number_of_pairs_can_give():
    assert permutation_test([1.0, 2.0, 3.0]) == 2 / 2**3
    assert permutation_test([1.0] * 5) == 2 / 2**5
    assert least_p([3, 5]).tolist() == [2 / 2**3, 2 / 2**5]
    # Above 14 pairs signs are drawn at random, and the observed ones count among them.
    assert permutation_test([0.1] * 30) == pytest.approx(2 / (2**14 + 1))


def test_random_sign_flips_are_the_same_every_time():
    differences = np.arange(-6, 10)  # 16 pairs, too many for all sign flips
    assert (
        permutation_test(differences)
        == permutation_test(differences)
        == pytest.approx(0.235825450106805)
    )


def test_pairs_that_differ_in_nothing():
    assert permutation_test([0.0, 0.0]) == 1
    assert permutation_test([1.0, -1.0]) == 1


def test_no_pairs_have_no_p():
    assert np.isnan(permutation_test([]))


@given(numbers)
def test_the_p_value_counts_sign_flips(differences):
    signs = np.array(list(product((1, -1), repeat=len(differences))))
    means = np.abs(signs @ np.array(differences))
    expected = (means >= abs(sum(differences))).mean()
    assert permutation_test(differences) == pytest.approx(expected)
    assert permutation_test([-each for each in differences]) == pytest.approx(expected)


def test_holm_multiplies_the_least_p_by_the_number_of_tests_and_keeps_the_order():
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]).tolist() == [1.0, 1.0]  # a probability, not 1.2
    assert holm([0.03]).tolist() == [0.03]
    assert holm([]).tolist() == []


@given(numbers, st.sampled_from(["lower", "higher"]))
def test_the_expected_best_is_the_mean_over_all_draws(values, better):
    pick = min if better == "lower" else max
    curve = expected_best(values, better)
    assert len(curve) == len(values)
    for draws in range(1, min(len(values), 4) + 1):
        every = [pick(chosen) for chosen in product(values, repeat=draws)]
        assert curve[draws - 1] == pytest.approx(np.mean(every), abs=1e-9)


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    values = [9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 100.0]
    assert interquartile_mean(values) == (3 + 4 + 5 + 6) / 4
    assert interquartile_mean([1.0, 2.0, 6.0]) == 3.0  # too few to leave any out


@given(numbers, numbers, st.sampled_from(["lower", "higher"]))
def test_the_probability_of_improvement_counts_pairs_of_runs(ours, theirs, better):
    sign = 1 if better == "higher" else -1
    wins = [(sign * a > sign * b) + (a == b) / 2 for a, b in product(ours, theirs)]
    assert probability_of_improvement(ours, theirs, better) == pytest.approx(np.mean(wins))


@pytest.mark.parametrize(("effect", "pairs"), [(0.5, 34), (0.8, 15), (1.0, 10)])
def test_the_seeds_needed_are_those_of_the_usual_tables(effect, pairs):
    # Two-sided paired t test, level 0.05, power 0.8: Cohen (1988), and G*Power.
    differences = effect + np.array([-1, 1]) / 2**0.5  # with a standard deviation of 1
    assert seeds_needed(differences) == pairs
    assert t_test_power(effect, pairs, 0.05) >= 0.8 > t_test_power(effect, pairs - 1, 0.05)


def test_the_power_of_the_test_is_what_a_simulation_finds():
    rng = np.random.default_rng(0)
    samples = rng.normal(0.9, 1, (4000, 8))
    rate = (stats.ttest_1samp(samples, 0, axis=1).pvalue <= 0.05).mean()
    assert t_test_power(0.9, 8, 0.05) == pytest.approx(rate, abs=0.02)


def test_without_an_effect_the_power_is_the_level():
    assert t_test_power(0.0, [2, 5, 40], 0.1) == pytest.approx([0.1] * 3)


def test_there_is_a_most_that_anybody_would_train():
    def needed(effect):
        return seeds_needed(effect + np.array([-1, 1]) / 2**0.5)

    assert needed(0.1257) == 499
    assert needed(0.1256) == needed(-0.1256) == 500
    assert needed(0.1255) is None
    assert t_test_power(0.1255, 501, 0.05) >= 0.8


def test_more_differences_and_less_certainty_need_more_seeds():
    differences = [0.9, 1.1, 1.0, 0.2]
    assert seeds_needed(differences, family=10) > seeds_needed(differences)
    assert seeds_needed([10 * each for each in differences]) == seeds_needed(differences)
    assert seeds_needed([1.0, 1.0], family=10) == 9  # 2 / 2^9 is below 0.005
    assert seeds_needed([1.0, 1.0, 1.0]) == 6  # the least that the permutation test can use
    assert seeds_needed([0.001, 1.0, -1.0]) is None  # more than anybody would train
    assert seeds_needed([0.3]) is None  # one pair has no spread
    assert seeds_needed([1.0, 1.0]) == 6
    assert seeds_needed([0.0, 0.0]) is None  # there is no difference to find
