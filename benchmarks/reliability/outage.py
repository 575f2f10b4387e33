"""Kill what a running sweep depends on: its tracking server, or the process of a trial.

    python -m benchmarks.reliability.outage server    # killed, and restarted after 30 s
    python -m benchmarks.reliability.outage worker    # the process of a trial killed

Exits with 1 if the sweep paused or anything was lost.
"""

import argparse
import itertools
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from orchestrator.execution.result import RESUMED_FROM
from orchestrator.tracking.event_log import CURSOR, LOG
from orchestrator.tracking.events import Metrics
from tests.support.real_sweeps import (
    doctor,
    events,
    ray_trials,
    reported,
    start,
    tiny_sweep,
    violations,
    wait_for,
)
from tests.support.servers import PATIENCE, Server

NAME, TRIALS = "s", 8


def arguments(updates: int) -> list[str]:
    """Command line of a sweep whose trials send a result about every second."""
    return tiny_sweep(NAME, TRIALS, updates=updates, evaluate_every=updates // 12, batch=64)


def longest_gap(sweep: Path) -> float:
    """Longest time between two results of any trials, in seconds."""
    times = [event.at / 1000 for event in events(sweep) if isinstance(event, Metrics)]
    return max(later - earlier for earlier, later in itertools.pairwise(times))


def run_with_server(away: float, updates: int) -> tuple[float, int, list[str]]:
    """Run a sweep whose server is down for a time: longest gap, waiting events, errors.

    With `away` 0 the server stays up.
    """
    folder = Path(tempfile.mkdtemp(prefix="outage-"))
    server = Server(f"sqlite:///{folder}/mlflow.db", folder)
    sweep, waited, wrong = folder / "sweeps" / NAME, 0, []
    with server.running():
        process = start(folder, *arguments(updates), "--tracking-uri", server.uri)
        wait_for(lambda: len(events(sweep)) > 20, process)
        if away:
            server.kill()
            time.sleep(away)
            sent = int((sweep / CURSOR).read_text())
            waited = (sweep / LOG).read_bytes()[sent:].count(b"\n")
            if process.poll() is not None:
                wrong.append("the sweep ended before the server was back; increase --updates")
            server.start()
            server.wait()
        if process.wait(PATIENCE) != 0:
            wrong.append((folder / "output.txt").read_text())
        wrong += violations(folder, TRIALS) + doctor(folder, NAME)
        return longest_gap(sweep), waited, wrong


def without_server(away: float, updates: int) -> list[str]:
    """Compare a sweep with the server up with one with the server down."""
    quiet, _, wrong = run_with_server(0.0, updates)
    gap, waited, more = run_with_server(away, updates)
    print(f"longest time between two results: {quiet:.2f} s with the server up, {gap:.2f} s with")
    print(f"the server down for {away:.0f} s; {waited} events waited and were delivered later")
    if gap > max(3 * quiet, quiet + 2):
        more.append("the sweep paused")
    return wrong + more


def worker_of(driver: int) -> int | None:
    """The process of a trial that a driver's Ray has started."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text()
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        parents[int(entry.name)] = (int(stat.rpartition(")")[2].split()[1]), words)
    for pid, (raylet, words) in parents.items():
        if words.startswith(b"ray::ImplicitFunc") and parents.get(raylet, (0,))[0] == driver:
            return pid
    return None


def without_worker(updates: int) -> list[str]:
    """Run a sweep in which the process of one trial is killed."""
    folder = Path(tempfile.mkdtemp(prefix="outage-"))
    sweep = folder / "sweeps" / NAME
    process = start(folder, *arguments(updates))
    # Until both concurrent trials have results to lose.
    wait_for(lambda: sum(len(rows) >= 2 for rows in reported(sweep).values()) >= 2, process)
    victim = worker_of(process.pid)
    assert victim is not None, "no worker found"
    os.kill(victim, signal.SIGKILL)
    before = reported(sweep)
    wrong = [] if process.wait(PATIENCE) == 0 else [(folder / "output.txt").read_text()]
    wrong += violations(folder, TRIALS) + doctor(folder, NAME)
    resumed = 0
    for trial in ray_trials(sweep):
        last, number = trial.last_result, trial.config["number"]
        resumed_from = last[RESUMED_FROM]
        if trial.num_failures:
            resumed += 1
            previous = len(before.get(number, ()))
            repeated = previous - resumed_from
            print(f"trial {number} had sent {previous} results when its process was")
            print(
                f"killed, resumed from its checkpoint after result {resumed_from}, and ended with"
            )
            print(f"{last['training_iteration']} results")
            if repeated > 1:
                wrong.append(f"it repeated {repeated} results")
    return wrong if resumed == 1 else [*wrong, f"{resumed} trials were resumed instead of 1"]


def main() -> int:
    """Run one of the two."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["server", "worker"])
    parser.add_argument("--away", type=float, default=30.0, help="seconds without server")
    parser.add_argument("--updates", type=int, default=1200, help="updates per trial")
    options = parser.parse_args()
    if options.part == "server":
        wrong = without_server(options.away, options.updates)
    else:
        wrong = without_worker(options.updates)
    print("\n".join(wrong) or "no errors")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
