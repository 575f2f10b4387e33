"""What the checks of sweeps share: start one, wait, and compare what is left of it."""

import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run
from ray.tune import ExperimentAnalysis
from ray.tune.experiment import Trial

from orchestrator.execution.checkpoints import experiments
from orchestrator.tracking.event_log import LOG, scan
from orchestrator.tracking.events import Event, Metrics
from orchestrator.tracking.mlflow_runs import TRIAL

PATIENCE = 300.0  # seconds for what takes some, on a machine that may be busy with something else
# A trial of a second or two: the smallest that still has a few reports.
TINY = {
    "training.updates": 60,
    "training.evaluate_every": 10,
    "training.batch": 8,
    "model.hidden": 24,
    "task.longest": 4,
    "task.valid_sequences": 16,
}


def tiny_sweep(name: str, trials: int, **changed: int) -> list[str]:
    """The arguments of a sweep of tiny trials; `updates=100` changes a setting of training."""
    settings = TINY | {f"training.{key}": value for key, value in changed.items()}
    words = ["copy", "--smoke", "--name", name, "--trials", str(trials)]
    return words + [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def start(
    folder: Path, *arguments: str, command: str = "orchestrator.sweep"
) -> subprocess.Popen[bytes]:
    """A sweep in a process group of its own; what it says is appended to `output.txt`."""
    with open(folder / "output.txt", "ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", command, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], object], process: subprocess.Popen[bytes]) -> bool:
    """Wait until the condition holds; False if the process has ended before."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if process.poll() is not None:
            return False
        if time.monotonic() > deadline:
            raise TimeoutError("waited in vain")
        time.sleep(0.02)
    return True


class Server:
    """A real `mlflow server` that can be killed, held up and started again."""

    def __init__(
        self,
        store: str,
        folder: Path,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.store, self.folder, self.port = store, folder, free_port()
        self._options, self._environment = options, environment or {}
        self.uri = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, without waiting until it answers."""
        command = [sys.executable, "-m", "mlflow", "server", "--workers", "1"]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--backend-store-uri", self.store]
        command += ["--artifacts-destination", str(self.folder / "artifacts"), *self._options]
        with open(self.folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                env={
                    **os.environ,
                    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                    **self._environment,
                },
                stdout=log,
                stderr=log,
                start_new_session=True,  # its workers get the signals, too
            )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start it, and kill it at the end."""
        self.start()
        try:
            self.wait()
            yield
        finally:
            self.kill()

    def wait(self) -> None:
        """Wait until it answers."""
        assert self._process is not None
        assert wait_for(self._answers, self._process), "the server has ended"

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.uri}/health", timeout=1).close()
            return True
        except OSError:
            time.sleep(0.2)
            return False

    def signal(self, number: int) -> None:
        """Send a signal to it and its workers."""
        if self._process is not None:
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """As pulling the plug."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)
        self._process = None


def events(sweep: Path) -> list[Event]:
    """The log of a sweep so far."""
    path = sweep / LOG
    return [event for event, _ in scan(path)] if path.exists() else []


def reported(sweep: Path) -> dict[int, list[tuple[int, float]]]:
    """(step, validation) of every trial, in the order in which they were taken in."""
    found: dict[int, list[tuple[int, float]]] = {}
    for event in events(sweep):
        if isinstance(event, Metrics):
            (value,) = [v for k, v in event.values.items() if k in ("valid_bce", "valid_bpc")]
            found.setdefault(event.number, []).append((event.step, value))
    return found


def expected_rungs(
    reports: dict[int, list[tuple[int, float]]], milestones: Iterable[int]
) -> dict[int, dict[int, float]]:
    """ASHA's rungs, worked out from the log: a trial's best value when it got there."""
    values = {number: [value for _, value in rows] for number, rows in reports.items()}
    return {
        milestone: {n: min(v[:milestone]) for n, v in values.items() if len(v) >= milestone}
        for milestone in milestones
    }


def rungs(sweep: Path, experiment: str = "") -> dict[int, dict[int, float]]:
    """ASHA's rungs in the last snapshot that Ray made of the experiment, by default the last."""
    folder = sweep / "ray" / (experiment or experiments(str(sweep / "ray"))[-1])
    newest = max(folder.glob("callback-states-*.pkl"))
    states = pickle.loads(newest.read_bytes()).values()
    (found,) = [state["rungs"] for state in states if state and "rungs" in state]
    return found


def ray_trials(sweep: Path) -> list[Trial]:
    """What Ray knows of the trials of the last start."""
    logging.getLogger("ray.tune").setLevel(logging.ERROR)  # it misses files that nobody needs
    last = experiments(str(sweep / "ray"))[-1]
    return ExperimentAnalysis(str(sweep / "ray" / last)).trials or []


def runs(folder: Path) -> tuple[MlflowClient, list[Run], list[Run]]:
    """The runs in the store of a folder: a client to ask on, the parents, and the children."""
    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    found = client.search_runs([each.experiment_id for each in client.search_experiments()])
    children = [run for run in found if TRIAL in run.data.tags]
    return client, [run for run in found if run not in children], children


def violations(folder: Path, trials: int, metric: str = "valid_bce") -> list[str]:
    """What is not as it must be in the tracking store of a folder with one sweep that has ended."""
    client, parents, children = runs(folder)
    found = []
    if (len(parents), len(children)) != (1, trials):
        found.append(f"{len(parents)} + {len(children)} runs instead of 1 + {trials}")
    running = [run.info.run_name for run in [*parents, *children] if run.info.status == "RUNNING"]
    found += [f"{name} is still running" for name in running]
    for run in children:
        steps = Counter(each.step for each in client.get_metric_history(run.info.run_id, metric))
        every = sorted(steps)
        if max(steps.values(), default=0) > 1:
            found.append(f"{run.info.run_name} has a step twice")
        if every != [every[0] * place for place in range(1, len(every) + 1)]:
            found.append(f"{run.info.run_name} lacks a step: {every}")
    return found


def doctor(folder: Path, name: str) -> list[str]:
    """Where Ray, Optuna, MLflow and the log disagree."""
    asked = [sys.executable, "-m", "orchestrator.doctor", name]
    told = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False)
    return [] if told.returncode == 0 else (told.stdout + told.stderr).splitlines()
