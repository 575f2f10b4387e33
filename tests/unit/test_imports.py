"""Imports point in one direction: from the commands down to the data, read from the source."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OUTSIDE = {"ray", "optuna", "mlflow", "orchestrator", "search_spaces"}
COMMANDS = ("config", "build", "cli", "commands", "evaluate", "layer", "ngram", "train")
ON_TOP = {f"tardis_core.{name}" for name in COMMANDS}
TRAINING = ON_TOP | {"tardis_core.training", "tardis_core.analysis", "tardis_core.serving"}
# Whatever lies in the folder (or its subfolders) imports none of these.
FORBIDDEN = {
    # pyplot chooses a backend for the whole program, and a notebook has one already.
    "tardis_core": OUTSIDE | {"matplotlib.pyplot"},
    "search_spaces": {"torch", "ray", "mlflow", "orchestrator"},
    "tardis_core/data": TRAINING
    | {"tardis_core.models", "tardis_core.estimators", "tardis_core.tasks"},
    "tardis_core/estimators": TRAINING
    | {"tardis_core.models", "tardis_core.tasks", "tardis_core.data"},
    "tardis_core/models": TRAINING | {"tardis_core.tasks", "tardis_core.data"},
    "tardis_core/tasks": TRAINING,
}


def imported(source: str, module: str) -> set[str]:
    """Every module that the source of `module` may import, wherever in it the import stands."""
    return {name for node in ast.walk(ast.parse(source)) for name in _names(node, module)}


def _names(node: ast.AST, module: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = module.split(".")[: -node.level] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = ast.unparse(node.func)
        if called in ("__import__", "import_module", "importlib.import_module"):
            yield str(node.args[0].value)


def violations(source: str, module: str, forbidden: set[str]) -> set[str]:
    """What a source imports although it must not."""
    return {
        name
        for name in imported(source, module)
        for banned in forbidden
        if name == banned or name.startswith(f"{banned}.")
    }


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_point_only_to_the_left(folder):
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in (ROOT / folder).rglob("*.py")
        if (found := violations(path.read_text(), module_name(path), FORBIDDEN[folder]))
    }
    assert not wrong


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_there_is_something_to_check(folder):
    assert len(list((ROOT / folder).rglob("*.py"))) >= 3


def test_the_checker_sees_the_imports_that_there_are():
    source = (ROOT / "tardis_core/train.py").read_text()
    assert {"tqdm", "tardis_core.build", "tardis_core.training.loop"} <= imported(
        source, "tardis_core.train"
    )


@pytest.mark.parametrize(
    "source",
    [
        "import ray",
        "import ray.tune as t",
        "from ray import tune",
        "from ray.tune import Tuner",
        "import os, ray",
        "def late():\n    import ray",
        "class C:\n    def m(self):\n        from ray import tune",
        "if TYPE_CHECKING:\n    import ray",
        "try:\n    import ray\nexcept ImportError:\n    ray = None",
        "importlib.import_module('ray.tune')",
        "__import__('ray')",
    ],
)
def test_the_checker_catches_an_import_however_it_is_written(source):
    assert violations(source, "tardis_core.fake", OUTSIDE)


@pytest.mark.parametrize(
    "source",
    [
        "from tardis_core import models",
        "from tardis_core.models import base",
        "from .. import models",
        "from ..models.base import State",
    ],
)
def test_the_checker_catches_a_folder_further_right(source):
    found = violations(source, "tardis_core.data.fake", FORBIDDEN["tardis_core/data"])
    assert any(name.startswith("tardis_core.models") for name in found)


@pytest.mark.parametrize(
    "source",
    ["import rayleigh", "from tardis_core.data import models", "x = 'import ray'", "# import ray"],
)
def test_the_checker_lets_everything_else_pass(source):
    assert not violations(source, "tardis_core.data.fake", FORBIDDEN["tardis_core/data"] | OUTSIDE)


def test_what_needs_no_training_starts_without_the_libraries_of_training():
    """Whoever opens the UI, sends events or is asked for its versions does not wait for them."""
    modules = ("tracking.delivery_worker", "execution.node", "ui")
    light = ", ".join(["import sys", *(f"orchestrator.{name}" for name in modules)])
    heavy = {"torch", "ray", "optuna", "sklearn"}
    told = subprocess.run(
        [sys.executable, "-c", f"{light}; print({heavy} & set(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert told.stdout.strip() == "set()"
