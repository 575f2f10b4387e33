"""A sweep of a thousand trials of a second each, with MLflow on PostgreSQL: does anything grow?

    python -m benchmarks.reliability.load --trials 1000

A trial waits for a second and reports once, so that what is measured is the sweep around it. Prints
a row a hundred trials, then what grew, and what is left behind of a trial. Needs PostgreSQL on this
machine (`.ci/debian-packages` installs it); as root it runs as the user `postgres`.
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
from orchestrator.execution.progress import View
from orchestrator.execution.result import FINISHED, OBJECTIVE
from orchestrator.execution.search import Search
from orchestrator.execution.study import STUDY_FILE
from orchestrator.planning.plan import SearchPlan
from orchestrator.results import records
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
    "seconds a trial beside its own",
    "driver computes, ms a trial",
    "of that the proposal, ms",
    "driver, MB",
    "sender, MB",
    "events waiting",
)


def one_second(config: dict[str, Any]) -> None:
    """A trial that takes a second."""
    time.sleep(SECONDS)
    value = float(config["settings"]["training.learning_rate"])
    tune.report({OBJECTIVE: value, FINISHED: True, "rows": [{"update": 1, "valid_bce": value}]})


class TimedSearch(Search):
    """Adds up how long the proposals compute."""

    computed = 0.0

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        began = time.thread_time()
        try:
            return super().suggest(trial_id)
        finally:
            TimedSearch.computed += time.thread_time() - began


class Postgres:
    """A database server of our own."""

    def __init__(self, folder: Path) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if not found:
            sys.exit("PostgreSQL is not installed; as root: .ci/debian-packages")
        self._binaries, self._data, port = found[-1], folder / "postgres", free_port()
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
    """What some trials cost, and what there was after them."""

    trials: int
    beside: float  # seconds a trial
    computed: float  # by the driver, ms a trial
    proposal: float  # ms
    driver: float  # MB
    sender: float  # MB
    waiting: int  # events that MLflow has not got yet

    def __str__(self) -> str:
        whole = " | ".join(f"{each:.0f}" for each in self[2:])
        return f"| {self.trials} | {self.beside:.3f} | {whole} |"


class Watch(threading.Thread):
    """Follows the log of the sweep, and prints a row whenever so many more trials have ended."""

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
                    # Not before: the workers have to be started once.
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
        return 0.0  # it has ended
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def what_grew(rows: list[Row]) -> str:
    """The last row beside the second: the first still imports and fills caches."""
    if len(rows) < 3:
        return "too few trials to see anything grow"
    first, last = rows[1], rows[-1]
    between = last.trials - first.trials
    return (
        f"second row and last: {first.beside:.3f} and {last.beside:.3f} s a trial beside its "
        f"own, {first.computed:.0f} and {last.computed:.0f} ms computed by the driver, "
        f"{first.proposal:.0f} and {last.proposal:.0f} ms of it a proposal; the driver grew by "
        f"{1e3 * (last.driver - first.driver) / between:.0f} kB a trial, the sender by "
        f"{1e3 * (last.sender - first.sender) / between:.0f} kB"
    )


def what_is_left(plan: SearchPlan, log: EventLog, trials: int) -> str:
    """What 1,000 trials leave behind, from which 10,000 can be reckoned."""
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
        records.read(plan)
    took = f"{study[0]:.1f} s to open the study, {read[0]:.1f} s to read the log"
    return f"kB a trial: {left}; {took}"


@contextmanager
def _timed() -> Iterator[list[float]]:
    took, began = [0.0], time.perf_counter()
    yield took
    took[0] = time.perf_counter() - began


def runs_found(uri: str, plan: SearchPlan) -> int:
    """How many trials MLflow has, and as ended."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    query, found, page = f"tags.`{SWEEP}` = '{plan.sweep_id}'", 0, None
    while True:
        runs = client.search_runs([experiment.experiment_id], query, page_token=page)
        found += sum(TRIAL in run.data.tags and run.info.status != "RUNNING" for run in runs)
        page = runs.token
        if not page:
            return found


def measure(uri: str, folder: Path, trials: int, every: int) -> bool:
    """Run the sweep; whether MLflow has all of it."""
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
    found = runs_found(uri, plan)
    print(f"{swept[0]:.0f} s; {found} of {trials} runs in MLflow; {waiting} events waiting")
    print(what_grew(watch.rows))
    print(what_is_left(plan, log, trials), flush=True)
    return found == trials and not waiting


def main() -> int:
    """Measure in a folder of its own, which is kept if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--every", type=int, default=100, help="trials a row")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="load-"))
    os.chdir(folder)
    postgres, well = Postgres(folder), False
    try:
        well = measure(postgres.uri, folder, options.trials, options.every)
    finally:
        ray.shutdown()
        postgres.stop()
        if well:
            os.chdir("/")
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"what is left of it is in {folder}", file=sys.stderr)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
