"""Imports point in one direction, and light commands start without heavy libraries."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_import_contracts_hold():
    """The contracts are in pyproject.toml; `make lint` checks them, too."""
    linter = str(Path(sys.executable).with_name("lint-imports"))
    done = run(linter, "--no-logo", "--no-cache")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_light_commands_import_no_heavy_library():
    """The UI, the delivery of events and the node check must not wait for training libraries."""
    modules = ("tracking.delivery_worker", "execution.node", "ui")
    imports = ", ".join(["import sys", *(f"orchestrator.{name}" for name in modules)])
    heavy = {"torch", "ray", "optuna", "sklearn"}
    done = run(sys.executable, "-c", f"{imports}; print({heavy} & set(sys.modules))")
    assert done.stdout.strip() == "set()", done.stdout + done.stderr
