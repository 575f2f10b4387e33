"""A real comparison on a real Ray: killed without warning, resumed, recorded exactly once."""

import os
import signal
from pathlib import Path

import pandas as pd
import pytest

from orchestrator.doctor import main as doctor
from orchestrator.planning.plan import load_plan
from tests.support.mlflow_stores import fresh_sqlite
from tests.support.real_sweeps import TINY, events, runs, start, violations, wait_for

pytestmark = pytest.mark.slow
COMPARE = "orchestrator.compare"
SETTINGS = {**TINY, "task.test_sequences": 16}


def tear_snapshots(trials: Path) -> None:
    """As a kill may do that comes while Ray writes them."""
    torn = [*trials.glob("*.pkl"), *trials.glob("*.json")]
    assert torn
    for each in torn:
        each.write_bytes(b"")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """The folder of a comparison of two systems over two seeds, and what its end said."""
    folder = tmp_path_factory.mktemp("compare")
    fresh_sqlite(folder, tmp_path_factory)
    words = [*("copy", "--smoke", "--name", "c", "--seeds", "2", "--seed", "4")]
    words += ["--candidate", "lstm", "--candidate", "tardis:gumbel"]
    words += [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    process = start(folder, *words, command=COMPARE)
    wait_for(lambda: len(events(folder / "sweeps" / "c")) >= 6, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    tear_snapshots(folder / "sweeps" / "c" / "ray" / "trials-0")
    assert start(folder, "--resume", "c", command=COMPARE).wait(300) == 0
    return folder, (folder / "output.txt").read_text()


def test_every_run_is_recorded_once_and_all_sides_agree(compared, monkeypatch, capsys):
    folder, output = compared
    assert not violations(folder, 4), output
    monkeypatch.chdir(folder)
    assert doctor(["c"]) == 0, capsys.readouterr().out


def test_runs_are_called_by_system_and_seed_and_have_been_tested(compared):
    _, parents, children = runs(compared[0])
    names = sorted(run.info.run_name for run in children)
    assert names == [f"{s}, seed {n}" for s in ("lstm", "tardis gumbel") for n in (4, 5)]
    assert all("test_bce" in run.data.metrics for run in children)
    assert parents[0].data.tags["kind"] == "comparison"


def test_the_report_has_every_run_and_nothing_is_decided_by_two(compared, monkeypatch):
    folder, output = compared
    report = folder / "sweeps" / "c" / "report"
    table = pd.read_csv(report / "by_seed.csv", index_col="seed")
    assert table.index.tolist() == [4, 5]
    assert table[["lstm", "tardis gumbel"]].notna().all(axis=None)
    assert (report / "report.html").exists()
    assert "undecided: 2 pairs cannot tell, 6 could" in output
    assert "Traceback" not in output
    monkeypatch.chdir(folder)
    assert load_plan("c").trials == 4
