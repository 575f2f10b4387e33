"""Run a sweep of 1,000 trials of one second with MLflow on PostgreSQL, and see what grows.

    python -m benchmarks.reliability.load --trials 1000

A trial waits for a second and sends one result, so that only the sweep around it is measured.
Prints one row per hundred trials, then what grew and what each trial leaves on disk. Needs
PostgreSQL on this machine (`.ci/debian-packages` installs it); as root it runs as the user
`postgres`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import ray
from mlflow import MlflowClient
from ray import tune

from orchestrator.execution import cluster
from orchestrator.execution import tuner as sweeping
from orchestrator.execution.result import FINISHED, OBJECTIVE
from orchestrator.execution.search import Search
from orchestrator.execution.study import STUDY_FILE
from orchestrator.execution.view import View
from orchestrator.planning.plan import SearchPlan
from orchestrator.results.records import Records
from orchestrator.tracking.event_log import EventLog, open_log
from orchestrator.tracking.events import SweepEnded, SweepStarted
from orchestrator.tracking.mlflow_runs import SWEEP, TRIAL
from orchestrator.tracking.mlflow_store import prepare_store
from orchestrator.tracking.tracker import Tracker
from tests.support.servers import free_port

SLOTS, SECONDS = 2, 1.0
EXPERIMENT = "tardis-copy"
COLUMNS = (
    "trials",
    "overhead, seconds per trial",
    "driver, CPU ms per trial",
    "of which the proposal, ms",
    "driver, MB",
    "sender, MB",
    "events waiting",
)


def one_second(config: dict[str, Any]) -> None:
    """A trial that takes one second."""
    time.sleep(SECONDS)
    value = float(config["settings"]["training.learning_rate"])
    tune.report({OBJECTIVE: value, FINISHED: True, "rows": [{"update": 1, "valid_bce": value}]})


class TimedSearch(Search):
    """Adds up the CPU time of the proposals."""

    computed = 0.0

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        began = time.thread_time()
        try:
            return super().suggest(trial_id)
        finally:
            TimedSearch.computed += time.thread_time() - began


class Postgres:
    """A temporary database server."""

    def __init__(self, folder: Path) -> None:
        versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if not versions:
            sys.exit("PostgreSQL is not installed; run as root: .ci/debian-packages")
        self._binaries, self._data, port = versions[-1], folder / "postgres", free_port()
        self._user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        self._data.mkdir()
        if self._user:
            folder.chmod(0o755)
            shutil.chown(self._data, "postgres")
        self.uri = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        self._call("initdb", "-U", "postgres", "--auth", "trust")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        self._call("pg_ctl", "start", "-w", "-l", str(self._data / "log"), "-o", options)

    def _call(self, program: str, *arguments: str) -> None:
        command = [*self._user, str(self._binaries / program), "-D", str(self._data), *arguments]
        subprocess.run(command, cwd="/", stdout=subprocess.DEVNULL, check=True)

    def stop(self) -> None:
        """Stop it."""
        self._call("pg_ctl", "stop", "-m", "immediate")


class Row(NamedTuple):
    """Cost of some trials, and the state after them."""

    trials: int
    overhead: float  # seconds per trial
    computed: float  # by the driver, ms per trial
    proposal: float  # ms
    driver: float  # MB
    sender: float  # MB
    waiting: int  # events that are not in MLflow yet

    def __str__(self) -> str:
        whole = " | ".join(f"{each:.0f}" for each in self[2:])
        return f"| {self.trials} | {self.overhead:.3f} | {whole} |"


class Watch(threading.Thread):
    """Follows the event log and prints one row per `every` trials."""

    def __init__(self, log: EventLog, sender: int, every: int) -> None:
        super().__init__(daemon=True)
        self._log, self._sender, self._every, self._ended = log, sender, every, 0
        self._began: tuple[float, float, float] | None = None  # the clocks at the first trial
        self.rows: list[Row] = []

    def run(self) -> None:
        with open(self._log.path, "rb") as file:
            while True:
                line = file.readline()
                if not line:
                    time.sleep(0.05)
                elif b'"TrialStarted"' in line:
                    # Not earlier: starting the workers is not part of a trial.
                    self._began = self._began or _clocks()
                elif b'"TrialEnded"' in line:
                    self._ended += 1
                    if self._ended % self._every == 0:
                        self._add_row()

    def _add_row(self) -> None:
        assert self._began is not None
        now = _clocks()
        passed, computed, proposal = (
            (after - before) / self._every for before, after in zip(self._began, now, strict=True)
        )
        self._began = now
        row = Row(
            self._ended,
            passed * SLOTS - SECONDS,
            1e3 * computed,
            1e3 * proposal,
            _megabytes(os.getpid()),
            _megabytes(self._sender),
            self._log.waiting,
        )
        self.rows.append(row)
        print(row, file=sys.stderr, flush=True)


def _clocks() -> tuple[float, float, float]:
    return time.perf_counter(), time.process_time(), TimedSearch.computed


def _megabytes(process: int) -> float:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0.0  # the process has ended
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def growth(rows: list[Row]) -> str:
    """Compare the last row with the second; the first includes imports and filling caches."""
    if len(rows) < 3:
        return "too few trials to measure growth"
    first, last = rows[1], rows[-1]
    between = last.trials - first.trials
    return (
        f"second and last row: overhead {first.overhead:.3f} and {last.overhead:.3f} s per trial, "
        f"{first.computed:.0f} and {last.computed:.0f} ms CPU time of the driver, "
        f"{first.proposal:.0f} and {last.proposal:.0f} ms of it for the proposal; "
        f"the driver grew by {1e3 * (last.driver - first.driver) / between:.0f} kB per trial, "
        f"the sender by {1e3 * (last.sender - first.sender) / between:.0f} kB"
    )


def disk_usage(plan: SearchPlan, log: EventLog, trials: int) -> str:
    """Disk space per trial, and the time to read it back."""
    snapshots = Path(plan.ray_storage).glob("*/experiment_state-*.json")
    sizes = {
        "log": log.path.stat().st_size,
        "study": (plan.folder / STUDY_FILE).stat().st_size,
        "Ray's snapshot": sum(each.stat().st_size for each in snapshots),
    }
    left = ", ".join(f"{name} {size / trials / 1e3:.1f}" for name, size in sizes.items())
    with _timed() as study:
        sweeping.ended(plan)
    with _timed() as read:
        Records.load(plan)
    took = f"{study[0]:.1f} s to open the study, {read[0]:.1f} s to read the log"
    return f"kB per trial: {left}; {took}"


@contextmanager
def _timed() -> Iterator[list[float]]:
    took, began = [0.0], time.perf_counter()
    yield took
    took[0] = time.perf_counter() - began


def finished_runs(uri: str, plan: SearchPlan) -> int:
    """Number of trials that MLflow has as ended."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    query, count, page = f"tags.`{SWEEP}` = '{plan.sweep_id}'", 0, None
    while True:
        runs = client.search_runs([experiment.experiment_id], query, page_token=page)
        count += sum(TRIAL in run.data.tags and run.info.status != "RUNNING" for run in runs)
        page = runs.token
        if not page:
            return count


def measure(uri: str, folder: Path, trials: int, every: int) -> bool:
    """Run the sweep; returns whether everything arrived in MLflow."""
    prepare_store(uri, EXPERIMENT, str(folder / "artifacts"))
    cluster.start_ray(None, folder / "ray.log")
    sweeping._trainable = lambda plan, data: tune.with_resources(one_second, {"cpu": 1})
    sweeping.Search = TimedSearch  # type: ignore[misc]
    plan = SearchPlan("load", "copy", "smoke", trials, "bce", "lower", reports=1)
    plan.folder.mkdir(parents=True)
    log = open_log(plan.folder)
    log.append(SweepStarted(plan.name))
    tracker = Tracker(log, uri, EXPERIMENT, plan.sweep_id, separate_process=True)
    tracker.start()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", file=sys.stderr, flush=True)
    watch = Watch(log, tracker._delivery._process.pid, every)
    watch.start()
    with (
        _timed() as swept,
        open(plan.folder / "view.txt", "w") as view,
        redirect_stdout(view),
    ):
        sweeping.run(plan, None, SLOTS, [View(plan)])
    log.append(SweepEnded("FINISHED"))
    waiting = tracker.close(600)
    recorded = finished_runs(uri, plan)
    print(f"{swept[0]:.0f} s; {recorded} of {trials} runs in MLflow; {waiting} events waiting")
    print(growth(watch.rows))
    print(disk_usage(plan, log, trials), flush=True)
    return recorded == trials and not waiting


def main() -> int:
    """Measure in a temporary folder, which is kept after a failure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--every", type=int, default=100, help="trials per row")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="load-"))
    os.chdir(folder)
    postgres, complete = Postgres(folder), False
    try:
        complete = measure(postgres.uri, folder, options.trials, options.every)
    finally:
        ray.shutdown()
        postgres.stop()
        if complete:
            os.chdir("/")
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"kept for inspection: {folder}", file=sys.stderr)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
