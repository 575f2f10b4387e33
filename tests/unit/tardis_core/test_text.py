"""Durations, settings and errors as short texts."""

import pytest

from tardis_core.text import duration, error_line, short


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


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.00123456, "0.001235"), ("0.00123456", "0.001235"), (64, "64"), ("gumbel", "gumbel")],
)
def test_a_setting_reads_the_same_as_a_number_and_as_text(value, text):
    assert short(value) == text


def test_an_error_is_its_first_line_or_its_last():
    error = ValueError("\n  wrong size \nTraceback:\nlast words\n")
    assert error_line(error) == "wrong size"
    assert error_line(error, last=True) == "last words"
    assert error_line(error, limit=5) == "wrong"


def test_an_error_without_a_message_is_its_type():
    assert error_line(KeyError()) == "KeyError"
