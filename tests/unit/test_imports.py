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
import contextlib, io, runpy, sys
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
