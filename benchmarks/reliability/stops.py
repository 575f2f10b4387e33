"""Seconds from a signal to the end of a sweep, and what it leaves behind.

    python -m benchmarks.reliability.stops              # all signals, moments and receivers
    python -m benchmarks.reliability.stops --rounds 3 --moment training

A sweep gets a signal at its start-up, while its trials train, and while it writes its report; once
or twice, the driver alone or its whole process group. It must exit with 128 plus the number of the
signal, say how to resume (unless it had not begun), and leave no trial running. Run it alone on an
idle machine.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from benchmarks.reliability.checks import examine
from tests.support.real_sweeps import TINY, start, tiny_sweep, wait_for

SIGNALS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP}
RECEIVERS: dict[str, Callable[[int, int], None]] = {"driver": os.kill, "group": os.killpg}
MOMENTS = ("start-up", "training", "report")
CASES = (  # the signal, and how often it is sent
    ("SIGINT", 1),
    ("SIGTERM", 1),
    ("SIGTERM", 2),
    ("SIGHUP", 1),
)
BETWEEN_SECONDS = 1.0  # the first signal and the second
STARTING_SECONDS = 6.0  # amid the start of Ray
TRIALS = 4
PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Stop:
    """One sweep that was stopped."""

    moment: str
    receiver: str
    signal: str
    times: int
    seconds: float
    code: int
    wrong: str  # empty if everything is as promised


def stop(moment: str, receiver: str, name: str, times: int) -> Stop:
    """Start a sweep in a new folder, stop it, and look at what is left."""
    with tempfile.TemporaryDirectory(prefix="stop-") as scratch:
        folder = Path(scratch)
        process = _start(folder, moment)
        _wait_for(moment, folder, process)
        began = time.monotonic()
        for number in range(times):
            if number:
                time.sleep(BETWEEN_SECONDS)
            if process.poll() is None:
                RECEIVERS[receiver](process.pid, SIGNALS[name])
        code = process.wait(PATIENCE_SECONDS)
        seconds = time.monotonic() - began
        return Stop(moment, receiver, name, times, seconds, code, difference(folder, code, name))


def _start(folder: Path, moment: str) -> "subprocess.Popen[bytes]":
    updates = TINY["training.updates"] * (1 if moment == "report" else 1000)
    return start(folder, *tiny_sweep("s", TRIALS, updates=updates))


def _wait_for(moment: str, folder: Path, process: "subprocess.Popen[bytes]") -> None:
    """Until the moment has come; an error if the sweep ends before."""
    if moment == "start-up":
        time.sleep(STARTING_SECONDS)
        return
    log = folder / "sweeps" / "s" / "tracking.jsonl"
    # The report begins when the last trial has ended.
    event, count = ("Metrics", 4) if moment == "training" else ("TrialEnded", TRIALS)
    if not wait_for(lambda: log.exists() and log.read_text().count(f'"{event}"') >= count, process):
        raise RuntimeError((folder / "output.txt").read_text())


def difference(folder: Path, code: int, name: str) -> str:
    """What differs from the promise, if anything; the sweep may have ended before the signal."""
    output = (folder / "output.txt").read_text()
    if "Traceback" in output or code < 0:
        return "a traceback" if code >= 0 else f"ended by signal {-code}"
    if code not in (0, 128 + SIGNALS[name]):
        return f"exit code {code}"
    if not (folder / "sweeps" / "s" / "sweep.json").exists():
        return ""  # it had not begun: nothing to resume
    if code and "--resume s" not in output and "--extend s" not in output:
        return "no word of how to resume"
    left = examine(folder / "mlflow.db", 0, "valid_bce", "tardis.trial").running
    return f"left running: {', '.join(left)}" if left else ""


def table(stops: list[Stop]) -> str:
    """One row per case, as Markdown: the seconds of each round."""
    lines = [
        "| moment | signal | sent to | exit code | seconds | wrong |",
        "|---|---|---|---|---|---|",
    ]
    cases = list(dict.fromkeys((s.moment, s.signal, s.times, s.receiver) for s in stops))
    for case in cases:
        own = [s for s in stops if (s.moment, s.signal, s.times, s.receiver) == case]
        moment, name, times, receiver = case
        often = "" if times == 1 else ", twice"
        codes = ", ".join(str(code) for code in sorted({s.code for s in own}))
        seconds = ", ".join(f"{s.seconds:.1f}" for s in own)
        wrong = "; ".join(s.wrong for s in own if s.wrong) or "nothing"
        lines.append(f"| {moment} | {name}{often} | {receiver} | {codes} | {seconds} | {wrong} |")
    return "\n".join(lines)


def main() -> int:
    """Run the cases and print the table."""
    summary, _, detail = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=detail, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=1, help="rounds of each case")
    parser.add_argument("--moment", choices=MOMENTS, help="only stop at this moment")
    options = parser.parse_args()
    moments = (options.moment,) if options.moment else MOMENTS
    stops = []
    for moment, (name, times), receiver in product(moments, CASES, RECEIVERS):
        for _ in range(options.rounds):
            stops.append(stop(moment, receiver, name, times))
            print(f"{stops[-1]}", file=sys.stderr, flush=True)
    print(table(stops))
    return int(any(each.wrong for each in stops))


if __name__ == "__main__":
    sys.exit(main())
