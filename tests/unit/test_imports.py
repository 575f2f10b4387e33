"""Imports point in one direction, and light commands start without heavy libraries."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


@pytest.mark.slow
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
)  # that none imports pyplot is in integration/test_sweep_end_to_end.py


@pytest.mark.slow
def test_commands_do_not_import_heavy_libraries_that_they_do_not_need():
    lines = ["import importlib, sys"]
    for modules, heavy in STAGES:
        lines += [f"importlib.import_module('orchestrator.{name}')" for name in modules]
        lines += [f"print(sorted({heavy} & set(sys.modules)))"]
    done = run(sys.executable, "-c", "\n".join(lines))
    assert done.stdout.splitlines() == ["[]"] * len(STAGES), done.stdout + done.stderr


COMMANDS = {
    "tardis_core": ("train", "evaluate", "ngram"),
    "orchestrator": (
        "sweep",
        "compare",
        "evaluate",
        "inspect",
        "sample",
        "reproduce",
        "doctor",
        "status",
    ),
}
WRONG = {"train": "copi", "sweep": "copi", "compare": "copy --seeds 0", "reproduce": "figure-9"}
RUN_ALL = """
import contextlib, io, runpy, sys, warnings
warnings.simplefilter("ignore")  # runpy warns of modules that others have imported
for module, *arguments in {calls}:
    sys.argv = [module, *arguments]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as end:
            assert end.code in (0, 2), (module, end.code)
    assert out.getvalue().startswith(("usage: ", "error: ")), (module, out.getvalue())
print(len(sys.modules), {heavy} & set(sys.modules))
"""


def test_help_and_wrong_options_import_no_heavy_library():
    """They are answered in a fraction of a second: what takes time is what is imported."""
    names = [f"{package}.{name}" for package, every in COMMANDS.items() for name in every]
    calls = [(name, "--help") for name in names]
    calls += [(name, *WRONG.get(name.rpartition(".")[2], "--wrong").split()) for name in names]
    heavy = {"torch", "ray", "optuna", "mlflow", "pandas", "numpy", "matplotlib", "scipy", "rich"}
    done = run(sys.executable, "-c", RUN_ALL.format(calls=calls, heavy=heavy))
    count, _, imported = done.stdout.strip().partition(" ")
    assert imported == "set()", done.stdout + done.stderr
    assert int(count) < 300  # torch alone imports 1,000
