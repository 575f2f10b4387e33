"""Take away what a sweep depends on while it runs: its tracking server, and a worker process.

    python -m benchmarks.reliability.outage server    # killed for 30 s, then started again
    python -m benchmarks.reliability.outage worker    # a trial's process killed

Exits with 1 if the sweep paused, or anything was lost.
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
    """A sweep of trials with a report every second or so."""
    return tiny_sweep(NAME, TRIALS, updates=updates, evaluate_every=updates // 12, batch=64)


def longest_gap(sweep: Path) -> float:
    """The longest time between two reports, of whatever trial, in seconds."""
    times = [event.at / 1000 for event in events(sweep) if isinstance(event, Metrics)]
    return max(later - earlier for earlier, later in itertools.pairwise(times))


def run_with_server(away: float, updates: int) -> tuple[float, int, list[str]]:
    """A sweep whose server is away for a time: the longest gap, events that waited, what is wrong.

    With `away` 0 nothing happens to the server.
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
                wrong.append("the sweep had ended before the server was back: --updates is too low")
            server.start()
            server.wait()
        if process.wait(PATIENCE) != 0:
            wrong.append((folder / "output.txt").read_text())
        wrong += violations(folder, TRIALS) + doctor(folder, NAME)
        return longest_gap(sweep), waited, wrong


def without_server(away: float, updates: int) -> list[str]:
    """The same sweep with the server there, and with the server away."""
    quiet, _, wrong = run_with_server(0.0, updates)
    gap, waited, more = run_with_server(away, updates)
    print(
        f"longest time between two reports: {quiet:.2f} s with the server there, {gap:.2f} s with"
    )
    print(f"it away for {away:.0f} s, in which {waited} events waited; all arrived afterwards")
    if gap > max(3 * quiet, quiet + 2):
        more.append("the sweep paused")
    return wrong + more


def worker_of(driver: int) -> int | None:
    """The process of a trial that the Ray of a driver has started."""
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
    """A sweep one of whose trials loses its process."""
    folder = Path(tempfile.mkdtemp(prefix="outage-"))
    sweep = folder / "sweeps" / NAME
    process = start(folder, *arguments(updates))
    # Both trials of the two slots have something to lose.
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
        went_on_from = last[RESUMED_FROM]
        if trial.num_failures:
            resumed += 1
            made = len(before.get(number, ()))
            repeated = made - went_on_from
            print(f"trial {number} had made {made} reports when its process was")
            print(
                f"killed, went on from its checkpoint after report {went_on_from}, and ended with"
            )
            print(f"{last['training_iteration']} reports")
            if repeated > 1:
                wrong.append(f"it made {repeated} reports again")
    return wrong if resumed == 1 else [*wrong, f"{resumed} trials were resumed instead of 1"]


def main() -> int:
    """One of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["server", "worker"])
    parser.add_argument("--away", type=float, default=30.0, help="seconds")
    parser.add_argument("--updates", type=int, default=1200, help="of a trial")
    options = parser.parse_args()
    if options.part == "server":
        wrong = without_server(options.away, options.updates)
    else:
        wrong = without_worker(options.updates)
    print("\n".join(wrong) or "nothing is wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
