"""Imports point in one direction, and light commands start without heavy libraries."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_import_contracts_hold():
    """The contracts are in pyproject.toml; `make lint` checks them, too, and fills the cache."""
    linter = str(Path(sys.executable).with_name("lint-imports"))
    done = run(linter, "--no-logo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


# Commands, the heavy libraries that they must not import, and why: in the order of one process,
# where each stage adds its imports to those of the stages before.
STAGES = (
    # The UI, the delivery of events and the node check must not wait for training libraries.
    (("tracking.delivery_worker", "execution.node", "ui"), {"torch", "ray", "optuna", "sklearn"}),
    # The doctor compares records, and trains nothing.
    (("doctor",), {"torch"}),
    # Only the report of a search draws with pyplot, which takes a second to import.
    (("evaluate", "inspect", "sample", "api"), {"matplotlib.pyplot"}),
)


@pytest.mark.slow
def test_commands_do_not_import_heavy_libraries_that_they_do_not_need():
    lines = ["import importlib, sys"]
    for modules, heavy in STAGES:
        lines += [f"importlib.import_module('orchestrator.{name}')" for name in modules]
        lines += [f"print(sorted({heavy} & set(sys.modules)))"]
    done = run(sys.executable, "-c", "\n".join(lines))
    assert done.stdout.splitlines() == ["[]"] * len(STAGES), done.stdout + done.stderr
