"""A real sweep on a real Ray: killed without warning, resumed, and recorded exactly once."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import RunStatus
from optuna.trial import TrialState

from orchestrator.doctor import main as doctor
from orchestrator.events import Metrics, scan
from orchestrator.search import open_study

TRIALS = 4
UPDATES, EVERY = 60, 10
TINY = {
    "training.updates": UPDATES,
    "training.evaluate_every": EVERY,
    "training.batch": 8,
    "model.hidden": 24,
    "task.longest": 4,
    "task.valid_sequences": 16,
}
STATUS = {TrialState.COMPLETE: "FINISHED", TrialState.PRUNED: "KILLED", TrialState.FAIL: "FAILED"}


def sweep(folder: Path, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "orchestrator.sweep", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def start(folder: Path) -> subprocess.Popen:
    settings = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    return sweep(folder, "copy", "--smoke", "--name", "s", "--trials", str(TRIALS), *settings)


def wait_for(path: Path, events: int, process: subprocess.Popen) -> None:
    """Until the log of the sweep has so many events, or the process has ended."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if path.exists() and path.read_bytes().count(b"\n") >= events:
            return
        time.sleep(0.05)


@pytest.fixture(scope="module")
def killed_and_resumed(tmp_path_factory):
    """A sweep whose driver was killed twice, then run to its end."""
    folder = tmp_path_factory.mktemp("killed")
    log = folder / "sweeps" / "s" / "tracking.jsonl"
    rng = random.Random(5)
    process = start(folder)
    for seen in (5, 14):
        wait_for(log, seen, process)
        time.sleep(rng.uniform(0, 0.8))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        process = sweep(folder, "--resume", "s")
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    return folder, output


def runs(folder: Path):
    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    experiments = [each.experiment_id for each in client.search_experiments()]
    found = client.search_runs(experiments)
    return client, [r for r in found if "tardis.trial" in r.data.tags], found


def test_there_is_one_run_a_trial_and_one_parent_and_none_is_running(killed_and_resumed):
    folder, _ = killed_and_resumed
    _, children, every = runs(folder)
    assert len(every) == 1 + TRIALS
    assert sorted(int(run.data.tags["tardis.trial"]) for run in children) == list(range(TRIALS))
    assert not [run for run in every if run.info.status == RunStatus.to_string(RunStatus.RUNNING)]


def test_every_step_is_recorded_once_and_none_is_missing(killed_and_resumed):
    folder, _ = killed_and_resumed
    client, children, _ = runs(folder)
    for run in children:
        history = client.get_metric_history(run.info.run_id, "valid_bce")
        steps = [metric.step for metric in history]
        assert steps == list(range(EVERY, steps[-1] + 1, EVERY))
        if run.info.status == "FINISHED":
            assert steps[-1] == UPDATES


def test_optuna_and_mlflow_agree(killed_and_resumed):
    folder, _ = killed_and_resumed
    _, children, _ = runs(folder)
    study = open_study(folder / "sweeps" / "s", "s")
    told = {trial.number: STATUS[trial.state] for trial in study.trials}
    assert told == {int(run.data.tags["tardis.trial"]): run.info.status for run in children}


def test_the_log_has_each_step_once(killed_and_resumed):
    folder, _ = killed_and_resumed
    events = [event for event, _ in scan(folder / "sweeps" / "s" / "tracking.jsonl")]
    steps = [(each.number, each.step) for each in events if isinstance(each, Metrics)]
    assert len(steps) == len(set(steps))


def test_the_end_says_what_came_of_it_and_how_to_go_on(killed_and_resumed):
    folder, output = killed_and_resumed
    assert "python -m orchestrator.ui s" in output
    assert "--extend s" in output
    assert "Traceback" not in output
    assert "Ray" not in output  # its noise is in the log file
    table = folder / "sweeps" / "s" / "report" / "leaderboard.csv"
    assert len(table.read_text().splitlines()) == TRIALS + 1


def test_the_report_is_with_the_parent_run(killed_and_resumed):
    folder, _ = killed_and_resumed
    client, _, every = runs(folder)
    (parent,) = [run for run in every if "tardis.trial" not in run.data.tags]
    names = {each.path for each in client.list_artifacts(parent.info.run_id, "report")}
    assert {"report/leaderboard.csv", "report/study.log"} <= names


def test_the_doctor_finds_and_mends_what_disagrees(killed_and_resumed, monkeypatch, capsys):
    folder, _ = killed_and_resumed
    monkeypatch.chdir(folder)
    assert doctor(["s"]) == 0
    client, children, _ = runs(folder)
    client.update_run(children[0].info.run_id, "RUNNING")
    assert doctor(["s"]) == 1
    number = children[0].data.tags["tardis.trial"]
    assert f"MLflow has trial {number} as RUNNING" in capsys.readouterr().out
    assert doctor(["s", "--fix"]) == 0
    assert doctor(["s"]) == 0
