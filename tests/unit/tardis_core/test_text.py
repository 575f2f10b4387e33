"""Durations, numbers, settings and errors as short texts."""

import pytest

from tardis_core.text import aligned, counted, duration, error_line, short


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 s"),
        (89, "89 s"),
        (600, "10 min"),
        (7300, "2 h 2 min"),
        (47 * 3600, "47 h 0 min"),
        (72 * 3600, "3 days"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_one_thing_is_singular():
    assert [counted(n, "seed") for n in (0, 1, 2)] == ["0 seeds", "1 seed", "2 seeds"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.00123456, "0.001235"), ("0.00123456", "0.001235"), (64, "64"), ("gumbel", "gumbel")],
)
def test_a_setting_reads_the_same_as_a_number_and_as_text(value, text):
    assert short(value) == text


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ([2.09, 2.1134, None], ["2.090", "2.113", "-"]),
        ([123456.7, float("nan")], ["123457", "-"]),
        ([0.00123, 0.00456], ["0.001230", "0.004560"]),
        ([1e-7, 2e-7], ["1e-07", "2e-07"]),
        ([], []),
    ],
)
def test_numbers_of_a_column_have_equally_many_decimals(values, cells):
    assert aligned(values) == cells


def test_an_error_is_its_first_line_or_its_last():
    error = ValueError("\n  wrong size \nTraceback:\nlast words\n")
    assert error_line(error) == "wrong size"
    assert error_line(error, last=True) == "last words"
    assert error_line(error, limit=5) == "wrong"


def test_an_error_without_a_message_is_its_type():
    assert error_line(KeyError()) == "KeyError"
