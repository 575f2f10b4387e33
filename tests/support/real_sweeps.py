"""Real sweeps: start one in its own process, wait for it, and check what it left behind."""

import logging
import os
import pickle
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run
from ray.tune import ExperimentAnalysis
from ray.tune.experiment import Trial

from orchestrator.execution.checkpoints import experiments
from orchestrator.tracking.event_log import LOG, scan
from orchestrator.tracking.events import Event, Metrics
from orchestrator.tracking.mlflow_runs import TRIAL
from tests.support.command_server import StartedCommand
from tests.support.servers import PATIENCE

# A trial of one or two seconds: the smallest that still has several results.
TINY = {
    "training.updates": 60,
    "training.evaluate_every": 10,
    "training.batch": 8,
    "model.hidden": 24,
    "task.longest": 4,
    "task.valid_sequences": 16,
}


def tiny_sweep(name: str, trials: int, **training: int) -> list[str]:
    """Command line of a sweep of tiny trials; `updates=100` overrides a training setting."""
    settings = TINY | {f"training.{key}": value for key, value in training.items()}
    words = ["copy", "--smoke", "--name", name, "--trials", str(trials)]
    return words + [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def start(
    folder: Path, *arguments: str, command: str = "orchestrator.sweep"
) -> subprocess.Popen[bytes]:
    """Start a sweep in its own process group; its output is appended to `output.txt`."""
    with open(folder / "output.txt", "ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", command, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def wait_for(
    condition: Callable[[], object], process: "subprocess.Popen[bytes] | StartedCommand"
) -> bool:
    """Wait until the condition holds; False if the process ends first."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if process.poll() is not None:
            return False
        if time.monotonic() > deadline:
            raise TimeoutError(f"the condition did not hold within {PATIENCE:.0f} s")
        time.sleep(0.02)
    return True


def events(sweep: Path) -> list[Event]:
    """The event log of a sweep so far."""
    path = sweep / LOG
    return [event for event, _ in scan(path)] if path.exists() else []


def reported(sweep: Path) -> dict[int, list[tuple[int, float]]]:
    """(step, validation) of every trial, in the order of the event log."""
    results: dict[int, list[tuple[int, float]]] = {}
    for event in events(sweep):
        if isinstance(event, Metrics):
            (value,) = [v for k, v in event.values.items() if k in ("valid_bce", "valid_bpc")]
            results.setdefault(event.number, []).append((event.step, value))
    return results


def expected_rungs(
    results: dict[int, list[tuple[int, float]]], milestones: Iterable[int]
) -> dict[int, dict[int, float]]:
    """ASHA's rungs, computed from the event log: each trial's best value when it got there."""
    values = {number: [value for _, value in rows] for number, rows in results.items()}
    return {
        milestone: {n: min(v[:milestone]) for n, v in values.items() if len(v) >= milestone}
        for milestone in milestones
    }


def rungs(sweep: Path, experiment: str = "") -> dict[int, dict[int, float]]:
    """ASHA's rungs in Ray's last snapshot of an experiment (default: the last experiment)."""
    folder = sweep / "ray" / (experiment or experiments(str(sweep / "ray"))[-1])
    newest = max(folder.glob("callback-states-*.pkl"))
    states = pickle.loads(newest.read_bytes()).values()
    (asha_rungs,) = [state["rungs"] for state in states if state and "rungs" in state]
    return asha_rungs


def ray_trials(sweep: Path) -> list[Trial]:
    """Ray's records of the trials since the last start."""
    # Ray warns of missing result files, which a sweep does not write.
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    last = experiments(str(sweep / "ray"))[-1]
    return ExperimentAnalysis(str(sweep / "ray" / last)).trials or []


def runs(folder: Path) -> tuple[MlflowClient, list[Run], list[Run]]:
    """The MLflow runs of a folder: a client for further queries, the parents, the children."""
    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    every = client.search_runs([each.experiment_id for each in client.search_experiments()])
    children = [run for run in every if TRIAL in run.data.tags]
    return client, [run for run in every if run not in children], children


def violations(folder: Path, trials: int, metric: str = "valid_bce") -> list[str]:
    """What is wrong in the tracking store of a folder that holds one finished sweep."""
    client, parents, children = runs(folder)
    errors = []
    if (len(parents), len(children)) != (1, trials):
        errors.append(f"{len(parents)} + {len(children)} runs instead of 1 + {trials}")
    running = [run.info.run_name for run in [*parents, *children] if run.info.status == "RUNNING"]
    errors += [f"{name} is still running" for name in running]
    for run in children:
        counts = Counter(each.step for each in client.get_metric_history(run.info.run_id, metric))
        steps = sorted(counts)
        if max(counts.values(), default=0) > 1:
            errors.append(f"{run.info.run_name} has a step twice")
        if steps != [steps[0] * place for place in range(1, len(steps) + 1)]:
            errors.append(f"{run.info.run_name} lacks a step: {steps}")
    return errors


def doctor(folder: Path, name: str) -> list[str]:
    """Disagreements between Ray, Optuna, MLflow and the event log."""
    command = [sys.executable, "-m", "orchestrator.doctor", name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()
