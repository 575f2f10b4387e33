"""Kill the driver of a sweep at a random moment, resume it, and look for anything lost or twice.

    python -m benchmarks.reliability.kill_rounds --rounds 10

Prints a row a round; exits with 1 if any round left something that is not as it must be.
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
    """What one round showed."""

    killed_at: int  # events in the log when the driver was killed
    reports_before: int
    rungs_before: int  # entries in ASHA's rungs when the driver was killed
    repeated: int  # the most reports that any trial had to make again
    seconds: float
    wrong: list[str]


def play(folder: Path, trials: int, rng: random.Random) -> Round:
    """One round: run, kill, resume, compare."""
    began = time.monotonic()
    sweep = folder / "sweeps" / NAME
    process = start(folder, *tiny_sweep(NAME, trials))
    # A trial has about 8 events; the last moments, when the report is written, are included.
    moment = rng.randrange(1, 6 * trials)
    wait_for(lambda: len(events(sweep)) >= moment, process)
    time.sleep(rng.uniform(0, 0.5))
    process.kill()
    process.wait()
    killed_at, before = len(events(sweep)), reported(sweep)
    over = sum(isinstance(event, TrialEnded) for event in events(sweep)) == trials

    process = start(folder, "--resume", NAME)
    code = process.wait(600)
    wrong = [] if code == 0 else [f"the resumed sweep ended with {code}"]
    wrong += violations(folder, trials) + doctor(folder, NAME)

    reports = sum(len(rows) for rows in before.values())
    if over:  # nothing was left to train, and no rung was asked again
        return Round(killed_at, reports, 0, 0, time.monotonic() - began, wrong)
    after, held = reported(sweep), rungs(sweep)
    at_kill = expected_rungs(before, held)
    for milestone, recorded in at_kill.items():
        now = {number: held[milestone].get(number) for number in recorded}
        if now != recorded:
            wrong.append(f"rung {milestone} was {recorded} and is {now}")
    if held != expected_rungs(after, held):
        wrong.append("ASHA's rungs are not what the trials reported")

    repeated = 0
    for trial in ray_trials(sweep):
        known = len(before.get(trial.config["number"], ()))
        repeated = max(repeated, known - trial.last_result.get(RESUMED_FROM, 0))
    if repeated > 1:
        wrong.append(f"a trial made {repeated} reports again")
    entries = sum(len(recorded) for recorded in at_kill.values())
    return Round(killed_at, reports, entries, repeated, time.monotonic() - began, wrong)


def main() -> int:
    """Play the rounds and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1, help="number of the first round")
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong = 0
    print(
        "| round | events at the kill | reports | in rungs | reports repeated | seconds | wrong |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    for number in range(options.first, options.first + options.rounds):
        folder = Path(tempfile.mkdtemp(prefix="kill-round-"))
        made = play(folder, options.trials, random.Random(f"{options.seed}, {number}"))
        cells = [number, *made[:4], f"{made.seconds:.0f}", "; ".join(made.wrong) or "nothing"]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        wrong += bool(made.wrong)
        if made.wrong:
            print(f"kept for a look: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
