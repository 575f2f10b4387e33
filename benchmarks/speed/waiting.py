"""What it costs, or saves, that threads sleep while they wait, instead of spinning.

OpenMP reads OMP_WAIT_POLICY once, so every measurement has a process of its own; the policies
take turns, so that disturbances affect all equally.

python -m benchmarks.speed.waiting
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.speed.measure import machine
from tardis_core.cli import Parser, command
from tardis_core.threads import NUMBER, WAIT_POLICY

POLICIES = ("", "passive")  # the first is OpenMP's own: spin for milliseconds, then sleep
# Trains in a process of its own; arguments: seconds, then `task backend` pairs.
TIMED = """
import json, sys, time
from tardis_core.build import load_data
from tardis_core.config import make_config
from tardis_core.training.loop import Trainer

def seconds_per_update(task, backend, seconds):
    config = make_config(task, scale="small", overrides={"model.backend": backend})
    trainer = Trainer(config, load_data(config, None, "standin"))
    trainer.step()  # to warm up
    started, updates = time.perf_counter(), 0
    while updates < 2 or time.perf_counter() - started < seconds:
        trainer.step()
        updates += 1
    return (time.perf_counter() - started) / updates

print(json.dumps([seconds_per_update(*case.split(), float(sys.argv[1])) for case in sys.argv[2:]]))
"""
CASES = ("ptb native", "copy native", "copy reference")


def measure(policy: str, threads: int, seconds: float) -> list[float]:
    """Seconds per update of each case."""
    environment = {key: value for key, value in os.environ.items() if key != WAIT_POLICY}
    environment |= {NUMBER: str(threads)} | ({WAIT_POLICY: policy} if policy else {})
    child = [sys.executable, "-c", TIMED, str(seconds), *CASES]
    done = subprocess.run(child, env=environment, check=True, capture_output=True, text=True)
    result: list[float] = json.loads(done.stdout.splitlines()[-1])
    return result


def table(times: dict[str, list[list[float]]]) -> str:
    """Milliseconds per update without a policy, and with passive waiting as a multiple of it."""
    lines = ["| training | not set | passive |", "|---|---|---|"]
    for place, case in enumerate(CASES):
        own, passive = ([times_of_round[place] for times_of_round in times[p]] for p in POLICIES)
        ratio = statistics.median(b / a for a, b in zip(own, passive, strict=True))
        lines.append(f"| {case} | {1000 * statistics.median(own):.1f} ms | {ratio:.2f} |")
    return "\n".join(lines)


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure in rounds, and print the table."""
    parser = Parser(
        prog="python -m benchmarks.speed.waiting", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="per case and policy in a round")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="OMP_NUM_THREADS")
    options = parser.parse_args(arguments)
    times: dict[str, list[list[float]]] = {name: [] for name in POLICIES}
    for _ in range(options.rounds):
        for name in POLICIES:
            times[name].append(measure(name, options.threads, options.seconds))
    load = os.getloadavg()[1]
    print(
        f"{machine()}, {options.threads} threads, median of {options.rounds} rounds, load {load}\n"
    )
    print(table(times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
