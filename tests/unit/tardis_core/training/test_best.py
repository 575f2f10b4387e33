"""Which validation is the best."""

import math

import pytest

from tardis_core.training.best import best_row, phase_start


def rows(*values):
    """Validations after updates 4, 8, 12 and so on."""
    return [{"update": 4 * (n + 1), "valid_m": value} for n, value in enumerate(values)]


def best_update(values, better="lower", start=0.0):
    row = best_row(rows(*values), "valid_m", better, start)
    return None if row is None else row["update"]


def test_lower_or_higher_is_better():
    assert best_update([2.0, 1.0, 3.0]) == 8
    assert best_update([2.0, 1.0, 3.0], "higher") == 12


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_of_equal_validations_the_first_is_the_best(better):
    assert best_update([1.0, 1.0, 1.0], better) == 4


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_what_is_not_a_number_is_never_the_best(better):
    assert best_update([math.nan, 2.0, math.nan], better) == 8
    assert best_update([math.nan], better) is None
    assert best_update([], better) is None


def test_infinity_is_worse_than_any_number_but_is_one():
    assert best_update([math.inf, 5.0]) == 8
    assert best_update([math.inf]) == 4


def test_once_the_phase_has_begun_earlier_validations_do_not_count():
    assert best_update([1.0, 2.0], start=8) == 4
    assert best_update([1.0, 2.0, 5.0, 4.0], start=8) == 16


def test_the_validation_at_the_very_start_of_the_phase_is_an_earlier_one():
    assert best_update([3.0, 1.0, 2.0], start=8) == 12
    assert best_update([3.0, 1.0, 2.0], start=7.9) == 8


def test_what_is_not_a_number_does_not_begin_the_phase():
    assert best_update([1.0, math.nan], start=4) == 4


def test_the_phase_starts_where_the_cells_begin_to_vary():
    def start(**settings):
        return phase_start({"training.updates": 40, **settings})

    assert start(**{"memory.vary_cells_from": 0.75}) == 30
    assert start(**{"memory.vary_cells_from": 0.0}) == 0
    assert start(**{"memory.vary_cells_from": 1.0}) == 0  # never
    assert start() == 0  # a model without such a memory


def test_without_a_phase_every_validation_counts():
    first = {"update": 1, "valid_m": 1.0}
    assert best_row([first, {"update": 2, "valid_m": 2.0}], "valid_m", "lower") == first


def test_in_a_race_the_validations_of_the_first_seed_alone_come_before_all_others():
    settings = {"training.updates": 40, "memory.vary_cells_from": 0.75}
    assert phase_start(settings, race=True) == 70
    assert phase_start({"training.updates": 40}, race=True) == 40
