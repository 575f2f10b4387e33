"""Text as a value of a type."""

import math
import subprocess
import sys

import pytest

from tardis_core.text_values import to_type


def test_text_becomes_a_value_of_the_type():
    values = [("3", int, 3), (3.0, int, 3), ("3", float, 3.0), ("1e-3", float, 1e-3), (3, str, "3")]
    for value, kind, expected in values:
        assert to_type(value, kind) == expected
        assert type(to_type(value, kind)) is kind


def test_the_words_of_a_switch():
    for word in ("true", "Yes", "ON", "1", True, 1):
        assert to_type(word, bool) is True
    for word in ("false", "No", "OFF", "0", False, 0):
        assert to_type(word, bool) is False


@pytest.mark.parametrize(
    ("kind", "rule", "values"),
    [
        (int, "a whole number", ("3.5", 3.5, "x", "", None, True, math.inf, math.nan, "1e3")),
        (float, "a number", ("x", "", None, False, math.inf, "nan", "-inf", [1])),
        (bool, "true or false", ("maybe", 2, "", None, 0.5)),
    ],
)
def test_what_does_not_fit_is_refused_with_the_rule(kind, rule, values):
    for value in values:
        with pytest.raises(ValueError, match=f"^must be {rule}, not "):
            to_type(value, kind)


def test_it_loads_neither_torch_nor_optuna():
    code = "import sys, tardis_core.text_values; print({'torch', 'optuna'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "set()"
