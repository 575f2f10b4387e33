"""A sweep of a thousand trials of a second each, with MLflow on PostgreSQL: does anything grow?

    python -m benchmarks.load --trials 1000

A trial waits for a second and reports once, so that what is measured is the sweep around it. Prints
a row a hundred trials: the time that each costs beyond its second, and the memory of the driver.
Needs PostgreSQL on this machine; as root it runs as the user `postgres`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import ray
from mlflow import MlflowClient
from ray import tune

from benchmarks.sweep_checks import free_port
from orchestrator import run as sweeping
from orchestrator.event_log import open_log
from orchestrator.events import SweepEnded, SweepStarted
from orchestrator.mlflow_runs import SWEEP, TRIAL
from orchestrator.mlflow_store import prepare_store
from orchestrator.plan import SweepPlan
from orchestrator.search import FINISHED, OBJECTIVE
from orchestrator.tracking import Tracker
from orchestrator.view import View

SLOTS, EVERY = 2, 100
BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]


def one_second(config: dict[str, Any]) -> None:
    """A trial that takes a second."""
    time.sleep(1)
    value = float(config["settings"]["training.learning_rate"])
    tune.report({OBJECTIVE: value, FINISHED: True, "rows": [{"update": 1, "valid_bce": value}]})


class Postgres:
    """A database server of our own."""

    def __init__(self, folder: Path) -> None:
        self._data, port = folder / "postgres", free_port()
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
        command = [*self._user, str(BINARIES / program), "-D", str(self._data), *arguments]
        subprocess.run(command, cwd="/", stdout=subprocess.DEVNULL, check=True)

    def stop(self) -> None:
        """Stop it."""
        self._call("pg_ctl", "stop", "-m", "immediate")


class Watch(threading.Thread):
    """Looks at the log of the sweep, and at the memory of this process."""

    def __init__(self, log: Path) -> None:
        super().__init__(daemon=True)
        self._log, self._ended, self._began = log, 0, time.perf_counter()

    def run(self) -> None:
        """Print a row whenever another hundred trials have ended."""
        with open(self._log, "rb") as file:
            while True:
                line = file.readline()
                if not line:
                    time.sleep(0.05)
                elif b'"TrialEnded"' in line:
                    self._count()

    def _count(self) -> None:
        self._ended += 1
        if self._ended % EVERY == 0:
            now = time.perf_counter()
            each = (now - self._began) * SLOTS / EVERY - 1
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            memory = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
            print(f"| {self._ended} | {each:.3f} | {memory:.0f} |", file=sys.stderr, flush=True)
            self._began = now


def main() -> int:
    """Run the sweep and count what MLflow has of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    trials = parser.parse_args().trials
    folder = Path(tempfile.mkdtemp(prefix="load-"))
    os.chdir(folder)
    postgres = Postgres(folder)
    try:
        prepare_store(postgres.uri, "tardis-copy", str(folder / "artifacts"))
        sweeping.start_ray(None, folder / "ray.log")
        sweeping._trainable = lambda plan, data: tune.with_resources(one_second, {"cpu": 1})
        plan = SweepPlan("load", "copy", "smoke", trials, "bce", "lower", reports=1)
        plan.folder.mkdir(parents=True)
        log = open_log(plan.folder)
        log.append(SweepStarted(plan.name))
        tracker = Tracker(log, postgres.uri, "tardis-copy", plan.sweep_id, apart=True)
        tracker.start()
        print(
            "| trials | seconds a trial beside its own | driver, MB |\n|---|---|---|",
            file=sys.stderr,
        )
        Watch(log.path).start()
        began = time.perf_counter()
        with open(plan.folder / "view.txt", "w") as view, redirect_stdout(view):
            sweeping.run(plan, None, SLOTS, [View(plan)])
        swept = time.perf_counter() - began
        log.append(SweepEnded("FINISHED"))
        waiting = tracker.close(600)
        client = MlflowClient(postgres.uri)
        query, found, page = f"tags.`{SWEEP}` = '{plan.sweep_id}'", 0, None
        while True:
            runs = client.search_runs(["1"], query, page_token=page)
            found += sum(TRIAL in run.data.tags and run.info.status != "RUNNING" for run in runs)
            page = runs.token
            if not page:
                break
        print(
            f"{swept:.0f} s; {found} of {trials} runs in MLflow; {waiting} events waiting; log of "
            f"{log.path.stat().st_size / 1e6:.1f} MB, study of "
            f"{(plan.folder / 'study.log').stat().st_size / 1e6:.1f} MB",
            flush=True,
        )
        return 0 if found == trials and not waiting else 1
    finally:
        ray.shutdown()
        postgres.stop()


if __name__ == "__main__":
    sys.exit(main())
