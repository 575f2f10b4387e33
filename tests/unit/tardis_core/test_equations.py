"""docs/equations.md names functions and tests that exist."""

import ast
import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "equations.md").read_text()
FUNCTIONS = sorted(set(re.findall(r"`(tardis_core(?:\.\w+)+)`", TEXT)))
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))


@pytest.mark.parametrize("path", FUNCTIONS)
def test_every_function_of_the_map_exists(path):
    parts = path.split(".")
    modules = [
        n for n in range(1, len(parts)) if (ROOT.joinpath(*parts[:n])).with_suffix(".py").is_file()
    ]
    module = importlib.import_module(".".join(parts[: modules[-1]]))
    assert callable(reduce(getattr, parts[modules[-1] :], module))


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_every_test_of_the_map_exists(file, name):
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_equation_of_sections_2_and_3_is_in_the_map():
    numbers = {int(number) for number in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)}
    assert numbers == set(range(1, 20))
