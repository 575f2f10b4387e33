"""The way of docs/howto/serve.md and the examples that sweep: on a real Ray, a real server."""

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import time

import matplotlib.pyplot as plt
import mlflow
import pandas as pd
import pytest
import ray
from mlflow_stores import free_port, wait_for
from shell_blocks import ROOT, blocks, commands_of

from orchestrator.sweep_command import main as sweep_command

PAGE = ROOT / "docs" / "howto" / "serve.md"
TINY = ["--trials", "1", "--set", "training.updates=2", "--set", "model.hidden=8"]
SIZES = re.compile(r"^UPDATES, TRIALS = \d+, \d+", re.MULTILINE)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The folder in which `make sweep` has run, with a trial that is tiny; Ray stays for others."""
    folder = tmp_path_factory.mktemp("swept")
    told = subprocess.run(["make", "-n", "sweep"], cwd=ROOT, capture_output=True, text=True)
    words = shlex.split(told.stdout.splitlines()[-1])
    assert words[1:3] == ["-m", "orchestrator.sweep"], told
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("TARDIS_DATA", "MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
            patch.delenv(name, raising=False)
        assert sweep_command([*words[3:], *TINY]) == 0
        yield folder
    ray.shutdown()


@pytest.fixture
def here(swept, monkeypatch):
    monkeypatch.chdir(swept)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    yield swept
    mlflow.set_tracking_uri(None)
    plt.close("all")


def test_the_champion_of_make_sweep_is_served_as_it_is_loaded(here, capsys):
    """Both answers are to the same input, by the commands of the page."""
    names: dict = {}
    exec(blocks(PAGE, "python")[0], names)
    loaded = names["answer"]
    assert len(loaded["continuation"][0]) == 40
    assert "continuation" in capsys.readouterr().out

    (serve,) = [each.words for each in commands_of(PAGE) if each.words[0] == "mlflow"]
    (curl,) = [each.words for each in commands_of(PAGE) if each.words[0] == "curl"]
    port = str(free_port())
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db",
        "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
    }
    with open("service.log", "wb") as log:
        service = subprocess.Popen(
            [word.replace("5001", port) for word in serve],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        told: list[str] = []

        def answers() -> bool:
            assert service.poll() is None, (here / "service.log").read_text()
            ask = ["curl", "--silent", *(word.replace("5001", port) for word in curl[1:])]
            told.append(subprocess.run(ask, capture_output=True, text=True).stdout)
            time.sleep(0 if told[-1] else 0.3)
            return bool(told[-1])

        wait_for(answers)
    finally:
        os.killpg(service.pid, 15)
        service.wait(30)
    served = pd.DataFrame(json.loads(told[-1])["predictions"])
    assert served["continuation"][0] == loaded["continuation"][0]
    assert served["bits_per_symbol"][0] == pytest.approx(loaded["bits_per_symbol"][0], rel=1e-6)


def test_the_example_of_a_sweep_prints_its_leaderboard_and_draws(here, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sweep_from_python.py", "--trials", "1"])
    runpy.run_path(str(ROOT / "examples" / "sweep_from_python.py"), run_name="__main__")
    assert re.search(r"0 +complete +0\.\d+ +gumbel", capsys.readouterr().out)
    assert (here / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_code_of_the_notebook_runs_from_top_to_bottom(here):
    notebook = json.loads((ROOT / "examples" / "walkthrough.ipynb").read_text())
    cells = ["".join(each["source"]) for each in notebook["cells"] if each["cell_type"] == "code"]
    cells[0], smaller = re.subn(
        r"(?m)^UPDATES, TRIALS = \d+, \d+", "UPDATES, TRIALS = 2, 1", cells[0]
    )
    assert smaller == 1
    names: dict = {"__name__": "__main__"}
    for cell in cells:
        exec(compile(cell, "walkthrough.ipynb", "exec"), names)
    assert len(names["curve"]) == 2
    assert len(names["searched"].leaderboard) == 1
    assert all(each["execution_count"] for each in notebook["cells"] if "outputs" in each)
