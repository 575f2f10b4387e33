"""Real sweeps on a real Ray: interrupted, killed without warning, resumed, extended, inspected.

What is interrupted or killed is a process of its own and comes first; whatever runs to its end
shares one process and one Ray. All processes are forked from one that has imported the commands.
Each start of Ray takes seconds, so that a search loses its Ray and is then killed, and a comparison
is interrupted.
"""

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pandas as pd
import pytest

from orchestrator.doctor import main as doctor
from orchestrator.execution.checkpoints import experiments
from orchestrator.execution.study import open_study
from orchestrator.planning.plan import PLAN_FILE, load_plan
from orchestrator.tracking.events import Metrics
from orchestrator.tracking.states import State
from tests.support import command_server
from tests.support.browser import CHROMIUM, Browser
from tests.support.mlflow_page import curves, served, trials
from tests.support.mlflow_stores import fresh_sqlite
from tests.support.real_sweeps import (
    TINY,
    events,
    expected_rungs,
    reported,
    rungs,
    runs,
    tiny_sweep,
    violations,
    wait_for,
)
from tests.support.victims import victims

pytestmark = pytest.mark.slow
SWEEP, COMPARE = "orchestrator.sweep_command", "orchestrator.compare_command"
OTHERS = tuple(f"orchestrator.{name}" for name in ("api", "evaluate", "inspect", "sample"))
TRIALS, MORE = 4, 1
LONGER = TINY["training.updates"] + 30  # once it is extended


@pytest.fixture(scope="module")
def commands():
    """Runs commands in one process, on one Ray, or forks processes that are stopped."""
    # A second worker would take seconds to start. Those that are stopped have all processors.
    with command_server.running(
        *OTHERS, SWEEP, COMPARE, RAY_OVERRIDE_RESOURCES='{"CPU": 1}'
    ) as server:
        yield server


def printed(folder: Path) -> str:
    """What commands have printed in a folder since the last call."""
    text = ""
    for path in (folder / "output.txt", folder / "errors.txt"):
        if path.exists():
            text += path.read_text()
            path.unlink()
    return text


class Life:
    """The life of a sweep, and what was seen at the end of each part of it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.sweep = folder, folder / "sweeps" / name
        self.seen: dict[str, dict] = {}
        self._random = random.Random(5)

    def stop(self, name: str, process, number: int, after: int) -> None:
        """Stop a process by a signal after so many more events, at a random moment."""
        self._wait_for_events(process, after)
        time.sleep(self._random.uniform(0, 0.2))
        # As a terminal does it: Ctrl-C reaches the whole group, a kill one process.
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        self.look(name, process.wait(300), killed=number == signal.SIGKILL)

    def lose_raylet(self, process, after: int) -> None:
        """Kill the raylet of a sweep after some events; the sweep then starts Ray again."""
        self._wait_for_events(process, after)
        os.kill(victims(process.pid, "raylet")[0], signal.SIGKILL)
        said = "Ray has died (its raylet ended)"
        files = [self.folder / name for name in ("output.txt", "errors.txt")]
        assert wait_for(lambda: any(said in file.read_text() for file in files), process)
        self.seen["lost"] = {"reported": reported(self.sweep)}

    def _wait_for_events(self, process, more: int) -> None:
        first = len(events(self.sweep))
        assert wait_for(lambda: len(events(self.sweep)) >= first + more, process)

    def look(self, name: str, code: int, killed: bool = False) -> None:
        """Note what there is to see; of a killed sweep MLflow need not have everything."""
        seen = {"code": code, "output": printed(self.folder), "reported": reported(self.sweep)}
        seen["experiment"] = experiments(str(self.sweep / "ray"))[-1]
        if not killed:
            _, parents, children = runs(self.folder)
            seen["statuses"] = [run.info.status for run in [*parents, *children]]
            seen["wrong"] = violations(self.folder, len(children))
        self.seen[name] = seen


def tear_snapshots(sweep: Path) -> None:
    """Damage Ray's snapshots as a kill may do that comes while Ray writes them."""
    snapshots = [*sweep.glob("ray/trials-*/*.pkl"), *sweep.glob("ray/trials-*/*.json")]
    assert snapshots
    for each in snapshots:
        each.write_bytes(b"")


@pytest.fixture(scope="module")
def stopped_sweep(tmp_path_factory, commands):
    """A sweep that lost its Ray and, when it had another, was killed."""
    folder = tmp_path_factory.mktemp("sweep")
    fresh_sqlite(folder, tmp_path_factory)
    life = Life(folder, "s")
    sweep = commands.start(folder, SWEEP, *tiny_sweep("s", TRIALS), environment=os.environ)
    life.lose_raylet(sweep, after=5)
    life.stop("killed", sweep, signal.SIGKILL, after=2)
    tear_snapshots(life.sweep)
    return life


@pytest.fixture(scope="module")
def stopped_comparison(tmp_path_factory, commands):
    """A comparison of two systems over two seeds that was interrupted."""
    folder = tmp_path_factory.mktemp("compare")
    fresh_sqlite(folder, tmp_path_factory)
    words = ["copy", "--smoke", "--name", "c", "--seeds", "2", "--seed", "4"]
    words += ["--concurrency", "1"]  # a second worker would take seconds to start
    words += ["--candidate", "lstm", "--candidate", "tardis:gumbel"]
    settings = {**TINY, "task.test_sequences": 16}
    words += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    life = Life(folder, "c")
    comparison = commands.start(folder, COMPARE, *words, environment=os.environ)
    life.stop("interrupted", comparison, signal.SIGINT, after=6)
    return life


@pytest.fixture(scope="module")
def life(commands, stopped_sweep, stopped_comparison):
    """The folder of a sweep after all parts of its life, and what was seen."""
    life, folder = stopped_sweep, stopped_sweep.folder
    life.look("resumed", commands.run(folder, SWEEP, "--resume", "s"))
    more = ("--extend", "s", "--trials", f"+{MORE}", "--updates", str(LONGER))
    life.look("extended", commands.run(folder, SWEEP, *more))
    return folder, life.seen


def test_plots_are_drawn_without_pyplot(commands, life):
    """It takes a second to import."""
    assert commands.imported("matplotlib.figure", "matplotlib.pyplot") == ["matplotlib.figure"]


def test_ctrl_c_records_everything_and_says_how_to_resume(stopped_comparison):
    seen = stopped_comparison.seen["interrupted"]
    assert seen["code"] == 130, seen["output"]
    assert "python -m orchestrator.compare --resume c" in seen["output"]
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


def test_a_sweep_that_loses_its_raylet_starts_ray_again_and_goes_on(life):
    output = life[1]["killed"]["output"]
    assert output.count("up to 2 concurrent") == 2
    assert "Traceback" not in output


def test_no_report_is_lost_on_the_way(life):
    seen = life[1]
    for earlier, later in [
        ("lost", "killed"),
        ("killed", "resumed"),
        ("resumed", "extended"),
    ]:
        for number, rows in seen[earlier]["reported"].items():
            assert seen[later]["reported"][number][: len(rows)] == rows


def test_there_is_one_run_per_trial_and_one_parent(life):
    _, parents, children = runs(life[0])
    assert len(parents) == 1
    numbers = sorted(int(run.data.tags["tardis.trial"]) for run in children)
    assert numbers == list(range(TRIALS + MORE))
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parents[0].info.run_id}


def test_a_finished_trial_has_all_its_steps(life):
    client, _, children = runs(life[0])
    finished = [run for run in children if run.data.tags["state"] == State.COMPLETE]
    assert finished
    for run in finished:
        history = client.get_metric_history(run.info.run_id, "valid_bce")
        assert max(metric.step for metric in history) == LONGER


def test_sweep_and_trials_can_be_ranked_by_their_best_value(life):
    _, (parent,), children = runs(life[0])
    name = "best_valid_bce"
    assert all(run.data.metrics[name] <= run.data.metrics["valid_bce"] for run in children)
    complete = [run for run in children if run.data.tags["state"] == State.COMPLETE]
    assert parent.data.metrics[name] == min(run.data.metrics[name] for run in complete)


def test_runs_say_where_they_come_from(life):
    _, (parent,), children = runs(life[0])
    for run in [parent, *children]:
        assert [each.dataset.name for each in run.inputs.dataset_inputs] == ["copy"]
        assert run.data.tags["mlflow.user"]
        assert run.data.tags["mlflow.source.name"]
    assert all("tardis_core.train" in run.data.tags["mlflow.note.content"] for run in children)


def test_optuna_and_mlflow_agree(life):
    _, _, children = runs(life[0])
    study = open_study(life[0] / "sweeps" / "s", "s")
    expected = {t.number: State.from_optuna(t.state).mlflow_status for t in study.trials}
    assert expected == {int(run.data.tags["tardis.trial"]): run.info.status for run in children}


def test_the_log_has_each_step_once(life):
    metrics = [each for each in events(life[0] / "sweeps" / "s") if isinstance(each, Metrics)]
    steps = [(each.number, each.step) for each in metrics]
    assert len(steps) == len(set(steps))


@pytest.mark.parametrize("part", ["resumed", "extended"])
def test_the_rungs_of_asha_are_what_was_reported_before_and_after(life, part):
    folder, seen = life
    held = rungs(folder / "sweeps" / "s", seen[part]["experiment"])
    assert held == expected_rungs(seen[part]["reported"], held)
    assert held[1].keys() >= seen["killed"]["reported"].keys()


def test_the_report_is_in_the_folder_and_with_the_parent_run(life):
    folder, _ = life
    table = folder / "sweeps" / "s" / "report" / "leaderboard.csv"
    assert len(table.read_text().splitlines()) == 1 + TRIALS + MORE
    client, (parent,), _ = runs(folder)
    names = {each.path for each in client.list_artifacts(parent.info.run_id, "report")}
    assert {"report/leaderboard.csv", "report/study.log"} <= names


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt install chromium")
def test_the_ui_shows_the_trials_best_first_and_their_learning_curves(life, tmp_path):
    folder, _ = life
    with served(folder) as addresses, Browser(tmp_path / "profile") as browser:  # the newest sweep
        rows = trials(browser, addresses)
        charts = curves(browser, addresses)
    names = [row["attributes.`Run Name`"] for row in rows]
    assert sorted(names) == [f"trial {number}" for number in range(TRIALS + MORE)]
    assert {row["tags.`state`"] for row in rows} <= {"complete", "pruned"}
    values = [float(row["metrics.`best_valid_bce`"].rstrip("…")) for row in rows]
    assert values == sorted(values)
    assert {row["params.`estimator`"] for row in rows} <= {"gumbel", "reinforce"}
    assert charts == [TRIALS + MORE]


def test_the_doctor_finds_and_fixes_what_disagrees(life, tmp_path, monkeypatch, capsys):
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


@pytest.fixture(scope="module")
def compared(commands, stopped_comparison, stopped_sweep):
    """The folder of the comparison after it was resumed, and all that was printed."""
    folder = stopped_comparison.folder
    code = commands.run(folder, COMPARE, "--resume", "c")
    output = printed(folder)
    assert code == 0, output
    return folder, output


def test_every_run_of_a_comparison_is_recorded_once_and_all_sides_agree(
    compared, monkeypatch, capsys
):
    folder, output = compared
    assert not violations(folder, 4), output
    monkeypatch.chdir(folder)
    assert doctor(["c"]) == 0, capsys.readouterr().out


def test_runs_are_named_by_system_and_seed_and_have_been_tested(compared):
    _, parents, children = runs(compared[0])
    names = sorted(run.info.run_name for run in children)
    assert names == [f"{s}, seed {n}" for s in ("lstm", "tardis gumbel") for n in (4, 5)]
    assert all("test_bce" in run.data.metrics for run in children)
    assert parents[0].data.tags["kind"] == "comparison"


def test_the_report_of_a_comparison_has_every_run_and_two_seeds_decide_nothing(
    compared, monkeypatch
):
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
