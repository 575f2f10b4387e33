"""Overhead of a sweep compared with plain Ray Tune.

    python -m benchmarks.speed.overhead noop     # 200 empty trials, compared with plain Ray Tune
    python -m benchmarks.speed.overhead busy     # 8 trials of about 30 s: how busy are the cores?
    python -m benchmarks.speed.overhead first    # seconds from the command to the first metric

Run each alone on an idle machine.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.optuna import OptunaSearch

import search_spaces
from benchmarks.speed.no_work import no_work
from orchestrator.execution import cluster
from orchestrator.execution import tuner as sweeping
from orchestrator.execution.result import OBJECTIVE
from orchestrator.execution.view import View
from orchestrator.planning.plan import SearchPlan
from orchestrator.tracking.event_log import EventLog, open_log
from orchestrator.tracking.events import Metrics, SweepEnded, SweepStarted
from orchestrator.tracking.mlflow_store import prepare_store
from orchestrator.tracking.tracker import Tracker
from tardis_core.build import load_data
from tardis_core.config import make_config
from tardis_core.training.loop import Trainer
from tests.support.real_sweeps import events, reported, start, tiny_sweep, wait_for

SLOTS = 2


def ours(trials: int, folder: Path, number: int) -> float:
    """Seconds of a sweep with everything recorded in MLflow."""
    plan = SearchPlan(
        f"noop-{number}", "copy", "smoke", trials, "bce", "lower", reports=1, seed=number
    )
    plan.folder.mkdir(parents=True)
    uri = f"sqlite:///{folder}/mlflow.db"
    prepare_store(uri, "tardis-copy")
    log = open_log(plan.folder)
    # As in a sweep, it starts while Ray starts, which is not measured here.
    tracker = Tracker(log, uri, "tardis-copy", plan.sweep_id, separate_process=True)
    tracker.start()
    log.append(SweepStarted(plan.name))
    assert tracker.flush(60) == 0
    began = time.perf_counter()
    with open(plan.folder / "view.txt", "w") as view, redirect_stdout(view):
        sweeping.run(plan, None, SLOTS, [View(plan)])
    log.append(SweepEnded("FINISHED"))
    assert tracker.close(60) == 0
    seconds = time.perf_counter() - began
    _check(log, trials)
    return seconds


def _check(log: EventLog, trials: int) -> None:
    numbers = {event.number for event, _ in log.read(0) if isinstance(event, Metrics)}
    assert len(numbers) == trials


def plain(trials: int, folder: Path, number: int) -> float:
    """Seconds of plain Ray Tune with the same space, sampler and scheduler."""
    with patch.dict(os.environ):
        os.environ.pop("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", None)
        return _run_ray_tune(trials, folder, f"plain-{number}", number)


def bare(trials: int, folder: Path, number: int) -> float:
    """The same without the files that Ray Tune writes for every trial."""
    return _run_ray_tune(trials, folder, f"bare-{number}", number)


def _run_ray_tune(trials: int, folder: Path, name: str, seed: int) -> float:
    module = search_spaces.fix(search_spaces.load("copy"), {})
    space = search_spaces.bind(module, "smoke", ("gumbel", "reinforce"), ("tardis",))
    began = time.perf_counter()
    search = OptunaSearch(
        space=space, metric=OBJECTIVE, mode="min", sampler=search_spaces.make_sampler("tpe", seed)
    )
    tuner = tune.Tuner(
        tune.with_resources(no_work, {"cpu": 1}),
        tune_config=tune.TuneConfig(
            search_alg=search,
            scheduler=ASHAScheduler(metric=OBJECTIVE, mode="min", max_t=1, grace_period=1),
            num_samples=trials,
            max_concurrent_trials=SLOTS,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(name=name, storage_path=str(folder), verbose=0),
    )
    assert len(tuner.fit()) == trials
    return time.perf_counter() - began


def noop(trials: int, rounds: int) -> None:
    """Alternate all three in one process and on one Ray."""
    folder = Path(tempfile.mkdtemp(prefix="overhead-"))
    os.chdir(folder)
    cluster.start_ray(None, folder / "ray.log")
    sweeping._trainable = lambda plan, data: tune.with_resources(no_work, {"cpu": 1})
    ours(8, folder, 1000), bare(8, folder, 1000)  # the first run includes the imports
    print(f"{trials} trials that do nothing, {SLOTS} concurrent; seconds", flush=True)
    print(
        "| round | sweep | plain Ray Tune | Ray Tune without files | ratio | ratio without files |"
    )
    print("|---|---|---|---|---|---|", flush=True)
    ratios = []
    for number in range(rounds):
        order = (plain, ours, bare) if number % 2 == 0 else (bare, ours, plain)
        seconds = {each.__name__: each(trials, folder, number) for each in order}
        a, b, c = seconds["ours"], seconds["plain"], seconds["bare"]
        ratios.append((a / b, a / c))
        print(f"| {number + 1} | {a:.1f} | {b:.1f} | {c:.1f} | {a / b:.2f} | {a / c:.2f} |")
    medians = [statistics.median(column) for column in zip(*ratios, strict=True)]
    print(f"| median | | | | {medians[0]:.2f} | {medians[1]:.2f} |", flush=True)
    ray.shutdown()


def busy(updates: int) -> None:
    """Utilisation of the cores in a real sweep of trials of about the same length."""
    folder = Path(tempfile.mkdtemp(prefix="busy-"))
    arguments = tiny_sweep("s", 8, updates=updates, evaluate_every=updates // 4, batch=64)
    # One kind of trial and no early stopping, so that all slots are busy until the end.
    arguments += ["--estimators", "gumbel", "--set", "model.hidden=64", "--set", "memory.cells=16"]
    began = time.time()
    process = start(folder, *arguments)
    assert process.wait(900) == 0, (folder / "output.txt").read_text()
    sweep = folder / "sweeps" / "s"
    metrics = [event for event in events(sweep) if isinstance(event, Metrics)]
    # From the start of the first training to the last result.
    training_began = min(event.at / 1000 - event.values["training_seconds"] for event in metrics)
    wall = max(event.at for event in metrics) / 1000 - training_began
    spent = {event.number: event.values["training_seconds"] for event in metrics}
    print(
        f"{len(spent)} trials of {min(spent.values()):.0f} to {max(spent.values()):.0f} s on "
        f"{SLOTS} slots: start-up {training_began - began:.1f} s, then {wall:.1f} s;\n"
        f"sum of training seconds / (wall x slots) = "
        f"{sum(spent.values()):.1f} / ({wall:.1f} x {SLOTS}) = "
        f"{sum(spent.values()) / (wall * SLOTS):.3f}"
    )


def train_alone(config: dict[str, Any], data: Any) -> None:
    """The training of a trial with nothing around it."""
    trainer = Trainer(make_config("copy", scale="smoke", seed=0), data, "auto")
    for row in trainer.run():
        tune.report(row)


class _FirstMetric(tune.Callback):
    def on_trial_result(self, *arguments: Any, **info: Any) -> None:
        print(f"first metric at {time.time()}", flush=True)


def plain_script() -> None:
    """The script that one would write without this project, for comparison in `first`."""
    data = load_data(make_config("copy", scale="smoke", seed=0), None, "auto")
    ray.init(include_dashboard=False)
    tuner = tune.Tuner(
        tune.with_parameters(train_alone, data=data),
        tune_config=tune.TuneConfig(num_samples=2),
        run_config=tune.RunConfig(
            callbacks=[_FirstMetric()], storage_path=tempfile.mkdtemp(), verbose=0
        ),
    )
    tuner.fit()


def first(rounds: int) -> None:
    """Time both commands, each from a cold start."""
    print("seconds from the command to the first metric", flush=True)
    for _ in range(rounds):
        folder = Path(tempfile.mkdtemp(prefix="first-"))
        began = time.time()
        process = start(folder, "copy", "--smoke", "--trials", "2", "--name", "s")
        wait_for(lambda folder=folder: reported(folder / "sweeps" / "s"), process)
        sweep = time.time() - began
        process.wait()
        began = time.time()
        command = [sys.executable, "-m", "benchmarks.speed.overhead", "plain-script"]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        at = float(output.partition("first metric at ")[2].split()[0])
        print(f"  sweep {sweep:.1f}, plain script {at - began:.1f}", flush=True)


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["noop", "busy", "first", "plain-script"])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=6000)
    options = parser.parse_args()
    if options.part == "noop":
        noop(options.trials, options.rounds)
    elif options.part == "busy":
        busy(options.updates)
    elif options.part == "first":
        first(options.rounds)
    else:
        plain_script()


if __name__ == "__main__":
    main()
