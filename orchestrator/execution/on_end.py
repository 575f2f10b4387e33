"""The command of `--on-end`: a notification when a sweep has ended."""

import os
import subprocess

from orchestrator.execution.status import status_of
from orchestrator.planning.plan import SweepPlan

TIMEOUT_SECONDS = 60
STDERR = 2  # stdout may be the JSON of the sweep


def notify(plan: SweepPlan) -> None:
    """Run the command of a sweep that has ended; a failure is said and changes nothing."""
    if not plan.on_end:
        return
    try:
        code = subprocess.run(
            plan.on_end,
            shell=True,
            env={**os.environ, **variables(plan)},
            stdin=subprocess.DEVNULL,
            stdout=STDERR,
            timeout=TIMEOUT_SECONDS,
            start_new_session=True,  # a second Ctrl-C is for the sweep
            check=False,
        ).returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"on-end:   the command failed: {error}", flush=True)
    else:
        if code:
            print(f"on-end:   the command failed with exit code {code}", flush=True)


def variables(plan: SweepPlan) -> dict[str, str]:
    """What the command is told, as variables of its environment."""
    status = status_of(plan, running=False)
    best = status.best_trial
    return {
        "TARDIS_SWEEP": plan.name,
        "TARDIS_STATE": status.state,
        "TARDIS_METRIC": plan.metric,
        "TARDIS_BEST": "" if best is None else str(status.progress.rows[best].value),
        "TARDIS_BEST_TRIAL": "" if best is None else str(best),
        "TARDIS_TRIALS": f"{status.progress.ended}/{plan.trials}",
        "TARDIS_FOLDER": str(plan.folder.absolute()),
    }
