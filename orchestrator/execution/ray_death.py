"""What follows when the Ray of this machine dies: the command starts again, or says how to.

Ray ends the process of the driver soon after, so nothing can be done in it. `exec` replaces it by
another with the same id, terminal and pipes: the command that resumes the sweep, or, if Ray has
died too often or somebody has asked the sweep to stop, this module, which records the end.
"""

import os
import signal
import sys
from _thread import interrupt_main
from collections.abc import Sequence
from typing import NoReturn

from orchestrator.execution import ray_internals
from orchestrator.planning.plan import SweepPlan, load_plan
from orchestrator.tracking.event_log import open_log
from orchestrator.tracking.events import SweepEnded
from orchestrator.tracking.tracker import Tracker
from tardis_core.cli import EXIT_USER_ERROR
from tardis_core.stopping import NUMBERS as STOP_SIGNALS
from tardis_core.stopping import stop_signals

MODULE = "orchestrator.execution.ray_death"
RESTARTS = 2
COUNT = "TARDIS_RAY_RESTARTS"  # how often this process has been replaced
SEND_SECONDS = 20


def handle(plan: SweepPlan, restart: Sequence[str], reason: str) -> None:
    """Continue by the module and arguments of `restart`, or record the end of the sweep."""
    count, asked = int(os.environ.get(COUNT, "0")), stop_signals.number is not None
    message = "stopped" if asked else f"error: the Ray of this machine has died ({reason})"
    if not restart:  # the process is not ours to replace
        open_log(plan.folder).append(SweepEnded("KILLED"))
        print(_advice(plan, message), file=sys.stderr, flush=True)
        interrupt_main()
    elif asked or count == RESTARTS:
        code = stop_signals.exit_code if asked else EXIT_USER_ERROR
        # The next process keeps the mask of this thread: a second signal must not end it.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        _become((MODULE, plan.name, str(code), message), count)
    else:
        print(f"\nRay has died ({reason}) and is started again; resuming ...", flush=True)
        _become(restart, count + 1)


def _advice(plan: SweepPlan, message: str) -> str:
    command = "compare" if plan.kind == "comparison" else "sweep"
    return (
        f"{message}; nothing is lost, continue with: "
        f"python -m orchestrator.{command} --resume {plan.name}"
    )


def _become(words: Sequence[str], count: int) -> NoReturn:
    ray_internals.kill_services()
    environment = {**os.environ, COUNT: str(count), "PYTHONPATH": os.pathsep.join(sys.path)}
    os.execve(sys.executable, [sys.executable, "-m", *words], environment)


def record_end(name: str) -> SweepPlan:
    """Record that a sweep and its trials have stopped, as the driver would have done."""
    plan = load_plan(name)
    log = open_log(plan.folder)
    log.append(SweepEnded("KILLED"))
    tracker = Tracker(log, plan.tracking_uri, plan.experiment, plan.sweep_id)
    tracker.start()
    tracker.close(SEND_SECONDS)
    log.close()
    return plan


def main(name: str, code: str, message: str) -> int:
    """Record the end, print one sentence, and return the exit code."""
    print(_advice(record_end(name), message), file=sys.stderr)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
