"""Kill the driver of a sweep at a random moment, resume it, and check the result.

    python -m benchmarks.reliability.kill_rounds --rounds 10

Nothing may be lost or exist twice. Prints one row per round; exits with 1 after an error.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from orchestrator.execution.result import RESUMED_FROM
from orchestrator.tracking.events import TrialEnded
from tests.support.real_sweeps import (
    doctor,
    events,
    expected_rungs,
    ray_trials,
    reported,
    rungs,
    start,
    tiny_sweep,
    violations,
    wait_for,
)

NAME = "s"


class Round(NamedTuple):
    """Result of one round."""

    killed_at: int  # events in the log when the driver was killed
    results_before: int
    rungs_before: int  # entries in ASHA's rungs when the driver was killed
    repeated: int  # maximum number of results that a trial had to repeat
    seconds: float
    errors: list[str]


def run_round(folder: Path, trials: int, rng: random.Random) -> Round:
    """Run a sweep, kill and resume it, and compare."""
    began = time.monotonic()
    sweep = folder / "sweeps" / NAME
    process = start(folder, *tiny_sweep(NAME, trials))
    # A trial has about 8 events; the moment may be as late as the writing of the report.
    moment = rng.randrange(1, 6 * trials)
    wait_for(lambda: len(events(sweep)) >= moment, process)
    time.sleep(rng.uniform(0, 0.5))
    process.kill()
    process.wait()
    killed_at, before = len(events(sweep)), reported(sweep)
    over = sum(isinstance(event, TrialEnded) for event in events(sweep)) == trials

    process = start(folder, "--resume", NAME)
    code = process.wait(600)
    errors = [] if code == 0 else [f"the resumed sweep ended with exit code {code}"]
    errors += violations(folder, trials) + doctor(folder, NAME)

    results = sum(len(rows) for rows in before.values())
    if over:  # nothing was left to train, and no rung was used again
        return Round(killed_at, results, 0, 0, time.monotonic() - began, errors)
    after, held = reported(sweep), rungs(sweep)
    at_kill = expected_rungs(before, held)
    for milestone, recorded in at_kill.items():
        now = {number: held[milestone].get(number) for number in recorded}
        if now != recorded:
            errors.append(f"rung {milestone} was {recorded} and is {now}")
    if held != expected_rungs(after, held):
        errors.append("ASHA's rungs differ from the results of the trials")

    repeated = 0
    for trial in ray_trials(sweep):
        previous = len(before.get(trial.config["number"], ()))
        repeated = max(repeated, previous - trial.last_result.get(RESUMED_FROM, 0))
    if repeated > 1:
        errors.append(f"a trial repeated {repeated} results")
    entries = sum(len(recorded) for recorded in at_kill.values())
    return Round(killed_at, results, entries, repeated, time.monotonic() - began, errors)


def main() -> int:
    """Run the rounds and print one row each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1, help="number of the first round")
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failures = 0
    print("| round | events at the kill | results | in rungs | repeated | seconds | errors |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for number in range(options.first, options.first + options.rounds):
        folder = Path(tempfile.mkdtemp(prefix="kill-round-"))
        result = run_round(folder, options.trials, random.Random(f"{options.seed}, {number}"))
        cells = [number, *result[:4], f"{result.seconds:.0f}", "; ".join(result.errors) or "none"]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        failures += bool(result.errors)
        if result.errors:
            print(f"kept for inspection: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
