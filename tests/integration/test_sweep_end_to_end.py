"""A real sweep on a real Ray: interrupted, killed without warning, resumed, extended, looked at."""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from filelock import FileLock
from optuna.trial import TrialState

from orchestrator.doctor import main as doctor
from orchestrator.execution.checkpoints import experiments
from orchestrator.execution.study import open_study
from orchestrator.planning.plan import PLAN_FILE
from orchestrator.tracking.events import Metrics
from tests.support.browser import CHROMIUM, Browser
from tests.support.mlflow_page import look, served
from tests.support.mlflow_stores import fresh_sqlite
from tests.support.real_sweeps import (
    TINY,
    events,
    expected_rungs,
    reported,
    rungs,
    runs,
    start,
    tiny_sweep,
    violations,
    wait_for,
)

pytestmark = pytest.mark.slow
TRIALS, MORE = 4, 2
UPDATES = TINY["training.updates"]
STATUS = {TrialState.COMPLETE: "FINISHED", TrialState.PRUNED: "KILLED", TrialState.FAIL: "FAILED"}


def live(folder: Path) -> dict:
    """The life of a sweep; what was seen at the end of each part of it."""
    sweep, rng = folder / "sweeps" / "s", random.Random(5)
    seen: dict = {}

    def part(name: str, process, stop: int | None = None, after: int = 0) -> None:
        if stop is not None:
            first = len(events(sweep))
            wait_for(lambda: len(events(sweep)) >= first + after, process)
            time.sleep(rng.uniform(0, 0.2))
            # As the terminal does it: Ctrl-C reaches the whole group, a kill one process.
            (os.killpg if stop == signal.SIGINT else os.kill)(process.pid, stop)
        code = process.wait(300)
        output = (folder / "output.txt").read_text()
        (folder / "output.txt").unlink()
        seen[name] = {"code": code, "output": output, "reported": reported(sweep)}
        seen[name]["experiment"] = experiments(str(sweep / "ray"))[-1]
        if stop != signal.SIGKILL:
            _, parents, children = runs(folder)
            seen[name]["statuses"] = [run.info.status for run in [*parents, *children]]
            seen[name]["wrong"] = violations(folder, len(children))

    part("interrupted", start(folder, *tiny_sweep("s", TRIALS)), signal.SIGINT, after=5)
    part("killed", start(folder, "--resume", "s"), signal.SIGKILL, after=4)
    part("resumed", start(folder, "--resume", "s"))
    part("extended", start(folder, "--extend", "s", "--trials", f"+{MORE}"))
    return seen


@pytest.fixture(scope="session")
def life(tmp_path_factory):
    """The folder of the sweep and what was seen; it takes a minute, so all workers share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "sweep-life"
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "lock"):
        if not (folder / "seen.json").exists():
            fresh_sqlite(folder, tmp_path_factory)
            (folder / "seen.json").write_text(json.dumps(live(folder)))
    return folder, json.loads((folder / "seen.json").read_text())


def test_ctrl_c_records_everything_and_says_how_to_go_on(life):
    seen = life[1]["interrupted"]
    assert seen["code"] == 130, seen["output"]
    assert "python -m orchestrator.sweep --resume s" in seen["output"]
    assert "Traceback" not in seen["output"]
    assert seen["statuses"][0] == "KILLED"
    assert "RUNNING" not in seen["statuses"]
    assert not seen["wrong"]


@pytest.mark.parametrize("part", ["resumed", "extended"])
def test_a_resumed_and_an_extended_sweep_end_well(life, part):
    seen = life[1][part]
    assert seen["code"] == 0, seen["output"]
    assert "python -m orchestrator.ui s" in seen["output"]
    assert "--extend s" in seen["output"]
    assert "Traceback" not in seen["output"]
    assert "Token authentication" not in seen["output"]  # Ray's noise is in the log file
    assert len(seen["statuses"]) == 1 + TRIALS + (MORE if part == "extended" else 0)
    assert "RUNNING" not in seen["statuses"]
    assert not seen["wrong"]


def test_no_report_is_lost_on_the_way(life):
    seen = life[1]
    for earlier, later in [
        ("interrupted", "killed"),
        ("killed", "resumed"),
        ("resumed", "extended"),
    ]:
        for number, rows in seen[earlier]["reported"].items():
            assert seen[later]["reported"][number][: len(rows)] == rows


def test_there_is_one_run_a_trial_and_one_parent(life):
    _, parents, children = runs(life[0])
    assert len(parents) == 1
    numbers = sorted(int(run.data.tags["tardis.trial"]) for run in children)
    assert numbers == list(range(TRIALS + MORE))
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parents[0].info.run_id}


def test_a_finished_trial_has_all_its_steps(life):
    client, _, children = runs(life[0])
    finished = [run for run in children if run.info.status == "FINISHED"]
    assert finished
    for run in finished:
        history = client.get_metric_history(run.info.run_id, "valid_bce")
        assert max(metric.step for metric in history) == UPDATES


def test_optuna_and_mlflow_agree(life):
    _, _, children = runs(life[0])
    study = open_study(life[0] / "sweeps" / "s", "s")
    told = {trial.number: STATUS[trial.state] for trial in study.trials}
    assert told == {int(run.data.tags["tardis.trial"]): run.info.status for run in children}


def test_the_log_has_each_step_once(life):
    made = [each for each in events(life[0] / "sweeps" / "s") if isinstance(each, Metrics)]
    steps = [(each.number, each.step) for each in made]
    assert len(steps) == len(set(steps))


@pytest.mark.parametrize("part", ["resumed", "extended"])
def test_the_rungs_of_asha_are_what_was_reported_before_and_after(life, part):
    folder, seen = life
    held = rungs(folder / "sweeps" / "s", seen[part]["experiment"])
    told = {int(number): rows for number, rows in seen[part]["reported"].items()}
    assert held == expected_rungs(told, held)
    assert held[1].keys() >= {int(number) for number in seen["killed"]["reported"]}


def test_the_report_is_in_the_folder_and_with_the_parent_run(life):
    folder, _ = life
    table = folder / "sweeps" / "s" / "report" / "leaderboard.csv"
    assert len(table.read_text().splitlines()) == 1 + TRIALS + MORE
    client, (parent,), _ = runs(folder)
    names = {each.path for each in client.list_artifacts(parent.info.run_id, "report")}
    assert {"report/leaderboard.csv", "report/study.log"} <= names


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt install chromium")
def test_the_runs_page_shows_the_sweep_its_trials_and_their_figures(life, tmp_path):
    folder, _ = life
    with served("s", folder) as address, Browser(tmp_path / "profile") as browser:
        rows = look(browser, address, "s")
    parent, children = rows[0], rows[1:]
    assert parent["attributes.`Run Name`"] == "s"
    names = {row["attributes.`Run Name`"] for row in children}
    assert names == {f"trial {number}" for number in range(TRIALS + MORE)}
    for row in children:
        assert float(row["metrics.`valid_bce`"].rstrip("…")) > 0
        assert row["params.`estimator`"] in ("gumbel", "reinforce")
        assert int(row["params.`memory.cells`"]) > 0


def test_the_doctor_finds_and_mends_what_disagrees(life, tmp_path, monkeypatch, capsys):
    # A copy: other tests look at the sweep at the same time.
    folder = Path(shutil.copytree(life[0], tmp_path / "copy", symlinks=True))
    plan = folder / "sweeps" / "s" / PLAN_FILE
    plan.write_text(plan.read_text().replace(str(life[0]), str(folder)))
    monkeypatch.chdir(folder)
    assert doctor(["s"]) == 0
    client, _, children = runs(folder)
    client.update_run(children[0].info.run_id, "RUNNING")
    assert doctor(["s"]) == 1
    number = children[0].data.tags["tardis.trial"]
    assert f"MLflow has trial {number} as RUNNING" in capsys.readouterr().out
    assert doctor(["s", "--fix"]) == 0
    assert doctor(["s"]) == 0
