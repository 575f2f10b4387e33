"""Break every part of a cluster while a sweep runs on it, and count what is lost.

    sudo python -m benchmarks.reliability.faults            # all, one after the other
    sudo python -m benchmarks.reliability.faults link disk  # some

Prints a row a fault; exits with 1 if a run is left running, is there twice, or lacks a metric. The
cluster is that of `benchmarks.reliability.cluster`.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import boto3

from benchmarks.reliability.cluster import Cluster, short_trials, wait_until
from orchestrator.planning.plan import load_plan
from orchestrator.tracking.event_log import CURSOR, LOG
from orchestrator.tracking.events import Metrics, TrialEnded, TrialStarted
from orchestrator.tracking.mlflow_runs import SWEEP, TRIAL
from tests.support.real_sweeps import events

TRIALS, UPDATES = 12, 800
AWAY = 60  # seconds


class Row(NamedTuple):
    """What a sweep with a fault came to."""

    finished: int  # trials
    seconds: float
    resumed: int  # how often somebody had to say --resume
    running: int  # runs that seem to go on
    doubled: int
    missing: int  # metrics that are in the log and not in MLflow, or there twice
    notes: str


class Sweep:
    """A sweep on the cluster, in a folder of its own."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.folder = cluster.driver.home / "sweeps" / name
        self.resumed, self.began = 0, time.monotonic()
        self._start("copy", "--name", name, "--trials", str(TRIALS), *short_trials(UPDATES))

    def _start(self, *arguments: str) -> None:
        self.process = self.cluster.sweep(*arguments)
        # A fault may last longer than the sweep, which then is over before it is waited for.
        self._watch = threading.Thread(target=self._note_end, args=(self.process,), daemon=True)
        self._watch.start()

    def _note_end(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._stopped = time.monotonic()

    def ended(self) -> int:
        """How many trials have ended."""
        return sum(isinstance(event, TrialEnded) for event in events(self.folder))

    def running(self) -> list[int]:
        """The trials that have begun and not ended."""
        log = events(self.folder)
        ended = {event.number for event in log if isinstance(event, TrialEnded)}
        return [e.number for e in log if isinstance(e, TrialStarted) and e.number not in ended]

    def reports(self) -> int:
        """How many reports have arrived."""
        return sum(isinstance(event, Metrics) for event in events(self.folder))

    def wait_for(self, reports: int) -> None:
        """Until the sweep is well under way."""
        wait_until(lambda: self.reports() >= reports or self.process.poll() is not None, "reports")

    def resume(self) -> None:
        """Take the sweep up again."""
        self.cluster.driver.kill()
        self.resumed += 1
        self._start("--resume", self.name)

    def finish(self) -> Row:
        """Wait for the end, and compare the log with what MLflow has."""
        code = self.process.wait(900)
        if code and not self.resumed:
            self.resume()
            code = self.process.wait(900)
        self._watch.join()
        seconds = self._stopped - self.began
        told = [f"exit code {code}"] if code else []
        if self._waiting():
            self.cluster.driver_runs("orchestrator.doctor", self.name, "--fix")
            told.append("what waited was sent by orchestrator.doctor --fix")
        made = self._compare(seconds)
        return made._replace(notes="; ".join([*told, made.notes] if made.notes else told))

    def _waiting(self) -> bool:
        sent, log = self.folder / CURSOR, self.folder / LOG
        return not sent.exists() or int(sent.read_text()) < log.stat().st_size

    def _compare(self, seconds: float) -> Row:
        client = self.cluster.client()
        os.chdir(self.cluster.driver.home)
        query = f"tags.`{SWEEP}` = '{load_plan(self.name).sweep_id}'"
        everywhere = [each.experiment_id for each in client.search_experiments()]
        runs = client.search_runs(everywhere, query)
        by_trial = Counter(run.data.tags.get(TRIAL) for run in runs)
        expected = Counter[tuple[int, str, int]]()
        for event in events(self.folder):
            if isinstance(event, Metrics):
                expected.update((event.number, name, event.step) for name in event.values)
        found = Counter[tuple[int, str, int]]()
        for run in runs:
            for name in run.data.metrics:
                for point in client.get_metric_history(run.info.run_id, name):
                    found[int(run.data.tags[TRIAL]), name, point.step] += 1
        wrong = sum(expected[key] != found[key] for key in expected.keys() | found.keys())
        notes = {run.data.tags["note"] for run in runs if "note" in run.data.tags}
        return Row(
            sum(
                run.info.status in ("FINISHED", "KILLED") for run in runs if TRIAL in run.data.tags
            ),
            seconds,
            self.resumed,
            sum(run.info.status == "RUNNING" for run in runs),
            sum(count - 1 for count in by_trial.values()),
            wrong,
            "; ".join(sorted(notes)),
        )


def nothing(cluster: Cluster, sweep: Sweep) -> None:
    """No fault: how long it takes."""


def process(cluster: Cluster, sweep: Sweep) -> None:
    """The process of a trial is killed."""
    sweep.wait_for(20)
    victim = next(pid for pid in cluster.workers[0].named("ray::") if _trains(pid))
    os.kill(victim, signal.SIGKILL)


def _trains(pid: int) -> bool:
    return "ImplicitFunc" in Path(f"/proc/{pid}/cmdline").read_text()


def node(cluster: Cluster, sweep: Sweep) -> None:
    """A worker is switched off; another one takes its place after a minute."""
    sweep.wait_for(20)
    cluster.workers[1].kill()
    time.sleep(AWAY)
    cluster.start_worker(cluster.workers[1])


def link(cluster: Cluster, sweep: Sweep) -> None:
    """The cable of a worker is out for a minute."""
    sweep.wait_for(20)
    cluster.workers[1].link(up=False)
    time.sleep(AWAY)
    cluster.workers[1].link(up=True)


def tracking(cluster: Cluster, sweep: Sweep) -> None:
    """The tracking server is gone for a minute."""
    sweep.wait_for(20)
    cluster.mlflow.kill()
    time.sleep(AWAY)
    cluster.start_mlflow()


def database(cluster: Cluster, sweep: Sweep) -> None:
    """PostgreSQL crashes and starts again."""
    sweep.wait_for(20)
    cluster.postgres.kill()
    (cluster.postgres.home / "data" / "postmaster.pid").unlink(missing_ok=True)
    cluster.start_postgres()


def head(cluster: Cluster, sweep: Sweep) -> None:
    """The head of Ray is switched off and started again, and the sweep resumed."""
    sweep.wait_for(40)
    cluster.head.kill()
    cluster.driver.kill()  # it would wait a minute for the head, and end
    for worker in cluster.workers:
        worker.kill()  # their restart policy would bring them back after a minute, too
    cluster.start_head()
    for worker in cluster.workers:
        cluster.start_worker(worker)
    sweep.resume()


def disk(cluster: Cluster, sweep: Sweep) -> None:
    """The disk with the folder of the sweep is full for half a minute."""
    sweep.wait_for(20)
    rest = sweep.folder.parent / "rest"
    while True:
        try:
            with open(rest, "ab", buffering=0) as file:
                file.write(b"0" * 4096)
        except OSError:
            break
    time.sleep(30)
    rest.unlink()


def checkpoint(cluster: Cluster, sweep: Sweep) -> None:
    """The newest checkpoints of the running trials are cut in half, and their processes killed."""
    sweep.wait_for(20)
    os.environ.update({k: v for k, v in cluster.environment().items() if k.startswith("AWS_")})
    s3 = boto3.client("s3")
    damaged: list[str] = []
    while not damaged and sweep.process.poll() is None:
        time.sleep(1)
        training = [pid for each in cluster.workers for pid in each.named("ray::") if _trains(pid)]
        for pid in training:
            os.kill(pid, signal.SIGSTOP)  # no newer ones come meanwhile
        time.sleep(2)  # the driver takes in what was reported
        damaged = [_cut_newest(s3, sweep, number) for number in sweep.running()]
        damaged = [each for each in damaged if each]
        for pid in training:
            os.kill(pid, signal.SIGKILL if damaged else signal.SIGCONT)


def _cut_newest(s3: Any, sweep: Sweep, number: int) -> str:
    """Damage the newest checkpoint of a trial, if it has another one; returns its key."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="ray", Prefix=f"{sweep.name}-")
    keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
    own = [each for each in keys if f"/trial-{number}-" in each and each.endswith("checkpoint.pt")]
    if len(own) < 2:
        return ""
    body = s3.get_object(Bucket="ray", Key=max(own))["Body"].read()
    s3.put_object(Bucket="ray", Key=max(own), Body=body[: len(body) // 2])
    return max(own)


FAULTS: dict[str, Callable[[Cluster, Sweep], None]] = {
    each.__name__: each
    for each in (nothing, process, node, link, tracking, database, checkpoint, disk, head)
}


def main() -> int:
    """Play the faults and print them."""
    chosen = sys.argv[1:] or list(FAULTS)
    cluster, wrong, usual = Cluster(), 0, None
    sweeps = cluster.driver.home / "sweeps"
    sweeps.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "sweeps", str(sweeps)], check=True)
    try:
        cluster.start()
        print(
            "| fault | trials ended well | seconds | lost | resumed | running | doubled | missing |"
        )
        print("|---|---|---|---|---|---|---|---|", flush=True)
        for name in chosen:
            sweep = Sweep(cluster, name)
            FAULTS[name](cluster, sweep)
            row = sweep.finish()
            usual = row.seconds if name == "nothing" else usual
            lost = f"{row.seconds - usual:.0f}" if usual is not None else "?"
            cells = [f"{row.finished} of {TRIALS}", f"{row.seconds:.0f}", lost, *row[2:6]]
            what = (FAULTS[name].__doc__ or name).rstrip(".")
            print(f"| {what} | " + " | ".join(map(str, cells)) + " |", flush=True)
            if row.notes:
                print(f"  {name}: {row.notes}", flush=True)
            wrong += bool(row.running or row.doubled or row.missing or row.finished < TRIALS)
    finally:
        cluster.network.close()
        subprocess.run(["umount", str(sweeps)], check=False)
        cluster.close(keep=bool(os.environ.get("KEEP")))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
