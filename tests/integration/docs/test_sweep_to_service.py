"""docs/howto/serve.md and the examples that sweep, on a real Ray and a real server."""

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
import mlflow
import pandas as pd
import pytest
import ray

import orchestrator
from tests.support.doc_command_handling import run_module
from tests.support.mlflow_stores import wait_for
from tests.support.servers import free_port
from tests.support.shell_blocks import ROOT, blocks, commands_of

PAGE = ROOT / "docs" / "howto" / "serve.md"
TINY = ["--trials", "1", "--set", "training.updates=2", "--set", "model.hidden=8"]
SIZES = re.compile(r"^UPDATES, TRIALS = \d+, \d+", re.MULTILINE)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:.*found in sys.modules after import:RuntimeWarning"),
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder; Ray and MLflow are reset afterwards."""
    monkeypatch.chdir(tmp_path)
    for name in ("TARDIS_DATA", "MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    ray.shutdown()
    mlflow.set_tracking_uri(None)
    plt.close("all")


def test_make_sweep_its_champion_and_the_examples_work(here, monkeypatch, capsys):
    """One test, since Ray is slow to start and all of these can share it."""
    run_make_sweep(monkeypatch)
    loaded = load_champion()
    with service() as ask:  # slow to start, too
        sweep, options = run_example(monkeypatch, capsys)
        run_notebook(monkeypatch, sweep, options)
        served = ask()
    assert len(loaded["continuation"][0]) == 40
    assert served["continuation"][0] == loaded["continuation"][0]
    assert served["bits_per_symbol"][0] == pytest.approx(loaded["bits_per_symbol"][0], rel=1e-6)


def run_make_sweep(monkeypatch) -> None:
    """Run what `make sweep` would run, with one tiny trial."""
    # Within `make test`, make would also print the folders it enters and leaves.
    dry_run = ["make", "--dry-run", "--no-print-directory", "sweep"]
    output = subprocess.run(dry_run, cwd=ROOT, capture_output=True, text=True).stdout
    words = shlex.split(output.splitlines()[-1])
    assert words[1:3] == ["-m", "orchestrator.sweep"], output
    assert run_module(words[2], [*words[3:], *TINY], monkeypatch) == 0


def load_champion() -> pd.DataFrame:
    """The answer of the page's Python example."""
    names: dict = {}
    exec(blocks(PAGE, "python")[0], names)
    return names["answer"]


@contextmanager
def service() -> Iterator:
    """The page's server on a free port; yields a function that sends the page's request."""
    (serve,) = [command.words for command in commands_of(PAGE) if command.words[0] == "mlflow"]
    (curl,) = [command.words for command in commands_of(PAGE) if command.words[0] == "curl"]
    port = str(free_port())
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    environment = {**os.environ, "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db", "PATH": path}
    with open("service.log", "wb") as log:
        process = subprocess.Popen(
            [word.replace("5001", port) for word in serve],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def ask() -> pd.DataFrame:
        answers: list[str] = []

        def answered() -> bool:
            assert process.poll() is None, Path("service.log").read_text()
            request = ["curl", "--silent", *(word.replace("5001", port) for word in curl[1:])]
            answers.append(subprocess.run(request, capture_output=True, text=True).stdout)
            time.sleep(0 if answers[-1] else 0.3)
            return bool(answers[-1])

        wait_for(answered)
        return pd.DataFrame(json.loads(answers[-1])["predictions"])

    try:
        yield ask
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


def run_example(monkeypatch, capsys) -> tuple[orchestrator.Sweep, dict]:
    """Run the example script; returns its sweep and the arguments it was called with."""
    calls: list[dict] = []
    real_sweep = orchestrator.sweep

    def sweep(task, **options):
        calls.append({"task": task, **options})
        return real_sweep(task, **options)

    monkeypatch.setattr(orchestrator, "sweep", sweep, raising=False)
    monkeypatch.setattr(sys, "argv", ["sweep_from_python.py", "--trials", "1"])
    runpy.run_path(str(ROOT / "examples" / "sweep_from_python.py"), run_name="__main__")
    assert re.search(r"0 +complete +0\.\d+ +gumbel", capsys.readouterr().out)
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")
    (name,) = [path.name for path in Path("sweeps").glob("copy-smoke-*")]
    return orchestrator.Sweep.load(name), calls[0]


def run_notebook(monkeypatch, example: orchestrator.Sweep, options: dict) -> None:
    """Run the cells of the notebook from top to bottom; it gets the sweep of the example."""

    def sweep(task, **given):
        assert {"task": task, **given, "trials": options["trials"]} == options
        return example

    monkeypatch.setattr(orchestrator, "sweep", sweep, raising=False)
    notebook = json.loads((ROOT / "examples" / "walkthrough.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    cells[0], replaced = SIZES.subn("UPDATES, TRIALS = 2, 1", cells[0])
    assert replaced == 1
    names: dict = {"__name__": "__main__"}
    for cell in cells:
        exec(compile(cell, "walkthrough.ipynb", "exec"), names)
    assert len(names["curve"]) == 2
    assert len(names["search"].leaderboard) == 1
    assert all(cell["execution_count"] for cell in notebook["cells"] if "outputs" in cell)
