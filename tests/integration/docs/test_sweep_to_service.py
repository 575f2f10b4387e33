"""The way of docs/howto/serve.md and the examples that sweep: on a real Ray, a real server."""

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
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import mlflow
import pandas as pd
import pytest
import ray

import orchestrator
from orchestrator.api import Sweep
from orchestrator.planning.options import SearchOptions
from orchestrator.planning.planner import plan_from
from orchestrator.sweep_command import main as sweep_command
from tests.support.mlflow_stores import wait_for
from tests.support.servers import free_port
from tests.support.shell_blocks import ROOT, blocks, commands_of

PAGE = ROOT / "docs" / "howto" / "serve.md"
TINY = ["--trials", "1", "--set", "training.updates=2", "--set", "model.hidden=8"]
SIZES = re.compile(r"^UPDATES, TRIALS = \d+, \d+", re.MULTILINE)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("TARDIS_DATA", "MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    ray.shutdown()
    mlflow.set_tracking_uri(None)
    plt.close("all")


def test_make_sweep_its_champion_and_the_examples(here, monkeypatch, capsys):
    """One test: Ray takes its time to start, and all of these share it."""
    make_sweep()
    loaded = load_champion()
    with service() as ask:  # it takes its time to start, too
        found = example_sweeps(monkeypatch, capsys)
        notebook_runs(monkeypatch, found)
        served = ask()
    assert len(loaded["continuation"][0]) == 40
    assert served["continuation"][0] == loaded["continuation"][0]
    assert served["bits_per_symbol"][0] == pytest.approx(loaded["bits_per_symbol"][0], rel=1e-6)


def make_sweep() -> None:
    """What `make sweep` would run, with a trial that is tiny."""
    # Within `make test` make would also say where it enters and leaves.
    asking = ["make", "--dry-run", "--no-print-directory", "sweep"]
    told = subprocess.run(asking, cwd=ROOT, capture_output=True, text=True)
    asked = shlex.split(told.stdout.splitlines()[-1])
    assert asked[1:3] == ["-m", "orchestrator.sweep"], told
    assert sweep_command([*asked[3:], *TINY]) == 0


def load_champion() -> pd.DataFrame:
    """The answer that the page gets in Python."""
    names: dict = {}
    exec(blocks(PAGE, "python")[0], names)
    return names["answer"]


@contextmanager
def service() -> Iterator:
    """The server of the page, on a port of its own; gives a function that asks as the page does."""
    (serve,) = [each.words for each in commands_of(PAGE) if each.words[0] == "mlflow"]
    (curl,) = [each.words for each in commands_of(PAGE) if each.words[0] == "curl"]
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
        told: list[str] = []

        def answers() -> bool:
            assert process.poll() is None, Path("service.log").read_text()
            question = ["curl", "--silent", *(word.replace("5001", port) for word in curl[1:])]
            told.append(subprocess.run(question, capture_output=True, text=True).stdout)
            time.sleep(0 if told[-1] else 0.3)
            return bool(told[-1])

        wait_for(answers)
        return pd.DataFrame(json.loads(told[-1])["predictions"])

    try:
        yield ask
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


def example_sweeps(monkeypatch, capsys) -> Sweep:
    """The script prints its leaderboard, and draws."""
    monkeypatch.setattr(sys, "argv", ["sweep_from_python.py", "--trials", "1"])
    runpy.run_path(str(ROOT / "examples" / "sweep_from_python.py"), run_name="__main__")
    assert re.search(r"0 +complete +0\.\d+ +gumbel", capsys.readouterr().out)
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")
    (name,) = [path.name for path in Path("sweeps").glob("copy-smoke-*")]
    return Sweep.load(name)


def notebook_runs(monkeypatch, found: Sweep) -> None:
    """The code of the notebook, from top to bottom; its sweep is the one of the example."""

    def sweep(task, **options):
        options |= {"estimators": tuple(options["estimators"]), "name": "of-the-notebook"}
        plan = plan_from(SearchOptions(task=task, **options))
        same = ("name", "sweep_id", "trials")
        assert replace(plan, **{each: getattr(found.plan, each) for each in same}) == found.plan
        return found

    monkeypatch.setattr(orchestrator, "sweep", sweep, raising=False)
    notebook = json.loads((ROOT / "examples" / "walkthrough.ipynb").read_text())
    cells = ["".join(each["source"]) for each in notebook["cells"] if each["cell_type"] == "code"]
    cells[0], smaller = SIZES.subn("UPDATES, TRIALS = 2, 1", cells[0])
    assert smaller == 1
    names: dict = {"__name__": "__main__"}
    for cell in cells:
        exec(compile(cell, "walkthrough.ipynb", "exec"), names)
    assert len(names["curve"]) == 2
    assert len(names["search"].leaderboard) == 1
    assert all(each["execution_count"] for each in notebook["cells"] if "outputs" in each)
