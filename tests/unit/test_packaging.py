"""pyproject.toml declares what the code imports, and the packages contain what they need."""

import ast
import importlib.metadata
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tardis_core

ROOT = Path(__file__).parents[2]
PACKAGES = ("tardis_core", "search_spaces", "orchestrator")
LOCAL = {*PACKAGES, "tests", "benchmarks", "zoo"}  # zoo: written by a test
OPTIONAL = ["triton"]  # a CUDA build of torch brings it along; nothing else needs it
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = importlib.metadata.packages_distributions()


def imported(*folders: str) -> dict[str, set[str]]:
    """Modules from outside that the code of some folders imports, and the packages with each."""
    modules = {
        name.partition(".")[0]
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in imported_names(node)
    }
    return {
        name: {canonicalize_name(each) for each in DISTRIBUTIONS[name]}
        for name in modules - LOCAL - set(sys.stdlib_module_names)
    }


def imported_names(node: ast.AST) -> list[str]:
    """The modules that a statement imports by absolute names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module]
    return []


def declared(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def undeclared(modules: dict[str, set[str]], requirements: list[str]) -> list[str]:
    return [name for name, origins in modules.items() if not origins & declared(requirements)]


@pytest.mark.slow
def test_every_imported_package_is_a_dependency():
    assert undeclared(imported(*PACKAGES), PROJECT["dependencies"]) == OPTIONAL


@pytest.mark.slow
def test_every_dependency_is_imported():
    used = set().union(*imported(*PACKAGES).values()) | {
        "cmaes"
    }  # imported by Optuna's CmaEsSampler
    assert declared(PROJECT["dependencies"]) <= used


@pytest.mark.slow
def test_tests_import_only_declared_packages():
    extra = PROJECT["optional-dependencies"]["dev"]
    assert not undeclared(imported("tests", "benchmarks"), [*PROJECT["dependencies"], *extra])


def test_constraints_satisfy_the_declared_versions():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {
        canonicalize_name(requirement.name): next(iter(requirement.specifier)).version
        for requirement in (Requirement(line) for line in lines if not line.startswith("#"))
    }
    extras = PROJECT["optional-dependencies"]
    for text in (*PROJECT["dependencies"], *extras["dev"], *extras["cluster"]):
        requirement = Requirement(text)
        assert pinned[canonicalize_name(requirement.name)] in requirement.specifier, text


@pytest.mark.parametrize("library", ["ray", "optuna"])
def test_libraries_with_private_api_in_use_have_a_version_cap(library):
    (text,) = [each for each in PROJECT["dependencies"] if Requirement(each).name == library]
    assert any(each.operator == "<" for each in Requirement(text).specifier)


def test_every_package_is_marked_as_typed():
    for package in PACKAGES:
        assert (ROOT / package / "py.typed").is_file()


def test_the_citation_names_this_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {tardis_core.__version__}\n" in citation
