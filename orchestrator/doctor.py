"""Do Ray, Optuna and MLflow agree about a sweep? `python -m orchestrator.doctor NAME`."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from optuna.trial import TrialState
from ray.tune import ExperimentAnalysis
from ray.tune.experiment import Trial

from orchestrator.common import permissions
from orchestrator.common.library_logs import redirect_library_logs
from orchestrator.common.redaction import masked
from orchestrator.execution.checkpoints import experiments
from orchestrator.execution.recorder import STATUS
from orchestrator.execution.tuner import study_trials
from orchestrator.planning.plan import ComparisonPlan, SweepPlan, load_plan
from orchestrator.tracking.event_log import EventLog, open_log
from orchestrator.tracking.events import Metrics, SweepEnded, TrialEnded, TrialStarted
from orchestrator.tracking.mlflow_runs import TRIAL, runs_of_sweep
from orchestrator.tracking.mlflow_store import reach_store
from orchestrator.tracking.tracker import Tracker
from tardis_core.cli import Parser, command

SEND_SECONDS = 120
RAY_ENDS = ("TERMINATED", "ERROR")


@dataclass
class Account:
    """What one of the four knows of the trials, by number."""

    status: dict[int, str] = field(default_factory=dict)  # RUNNING, FINISHED, KILLED or FAILED
    steps: dict[int, list[int]] = field(default_factory=dict)  # of the metrics, where it has them
    twins: list[int] = field(default_factory=list)  # numbers that it has more than once


def account_of_log(log: EventLog) -> Account:
    """What is to be recorded: the truth that the others are compared with."""
    made = Account()
    for event, _ in log.read(0):
        if isinstance(event, TrialStarted):
            made.status[event.number] = "RUNNING"
            made.steps.setdefault(event.number, [])
        elif isinstance(event, Metrics):
            made.status[event.number] = "RUNNING"
            made.steps.setdefault(event.number, []).append(event.step)
        elif isinstance(event, TrialEnded):
            made.status[event.number] = event.status
    return made


def account_of_study(plan: SweepPlan) -> Account:
    """What Optuna was told; trials that wait for their turn are left out."""
    if isinstance(plan, ComparisonPlan):
        return account_of_log(open_log(plan.folder))  # nobody asks Optuna in a comparison
    begun = [trial for trial in study_trials(plan) if trial.state is not TrialState.WAITING]
    return Account({trial.number: STATUS.get(trial.state, "RUNNING") for trial in begun})


def account_of_ray(plan: SweepPlan) -> Account:
    """What Ray's last snapshots have as ended; a killed driver leaves one that is behind."""
    made = Account()
    for experiment in experiments(plan.ray_storage):
        path = f"{plan.ray_storage.rstrip('/')}/{experiment}"
        if "://" not in path:
            permissions.check_folder(Path(path))
        for trial in _snapshot(path):
            if trial.status in RAY_ENDS:
                made.status[int(trial.config["number"])] = "ended"
    return made


def _snapshot(path: str) -> list[Trial]:
    try:
        return ExperimentAnalysis(path).trials or []
    except (EOFError, ValueError):
        return []  # a kill came while Ray wrote it


def account_of_mlflow(plan: SweepPlan, metric: str) -> Account:
    """What the tracking store has."""
    client, experiment_id = reach_store(plan.tracking_uri, plan.experiment)
    made = Account()
    for run in runs_of_sweep(client, experiment_id, plan.sweep_id):
        if TRIAL not in run.data.tags:
            continue
        number = int(run.data.tags[TRIAL])
        if number in made.status:
            made.twins.append(number)
        made.status[number] = run.info.status
        history = client.get_metric_history(run.info.run_id, metric)
        made.steps[number] = [each.step for each in history]
    return made


def differences(log: Account, study: Account, ray: Account, mlflow: Account) -> list[str]:
    """Where they disagree, a sentence each."""
    found = [f"MLflow has trial {number} more than once" for number in mlflow.twins]
    found += _statuses("Optuna", study.status, log.status)
    found += _statuses("MLflow", mlflow.status, log.status)
    for number in ray.status:
        if log.status.get(number, "RUNNING") == "RUNNING":
            found.append(f"Ray has trial {number} as ended, the log does not")
    for number, steps in log.steps.items():
        missing = Counter(steps) - Counter(mlflow.steps.get(number, []))
        extra = Counter(mlflow.steps.get(number, [])) - Counter(steps)
        if missing:
            found.append(f"MLflow lacks {missing.total()} of {len(steps)} steps of trial {number}")
        if extra:
            found.append(f"MLflow has {extra.total()} steps of trial {number} too many")
    return found


def _statuses(who: str, theirs: Mapping[int, str], ours: Mapping[int, str]) -> list[str]:
    return [
        f"{who} has trial {number} as {theirs.get(number, 'unknown')}, the log as "
        f"{ours.get(number, 'unknown')}"
        for number in sorted(theirs.keys() | ours.keys())
        if theirs.get(number) != ours.get(number)
    ]


def examine(plan: SweepPlan, log: EventLog) -> list[str]:
    """Everything that is not as it should be."""
    mlflow = account_of_mlflow(plan, f"valid_{plan.metric}")
    found = differences(account_of_log(log), account_of_study(plan), account_of_ray(plan), mlflow)
    if log.waiting:
        found.append(f"{log.waiting} events have not been sent to {masked(plan.tracking_uri)}")
    return found


def reconcile(plan: SweepPlan, log: EventLog) -> None:
    """Send the whole log again: what has arrived stays as it is, what has not arrives now."""
    if log.open_trials():
        log.append(SweepEnded("KILLED"))  # they do not run; --resume opens them again
    log.mark_sent(0)
    tracker = Tracker(log, plan.tracking_uri, plan.experiment, plan.sweep_id)
    tracker.start()
    tracker.close(SEND_SECONDS)


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and with --fix make them agree."""
    parser = Parser(prog="python -m orchestrator.doctor", description=__doc__)
    parser.add_argument("name", help="of a sweep that is not running")
    parser.add_argument("--fix", action="store_true", help="bring MLflow up to the log")
    options = parser.parse_args(arguments)
    plan = load_plan(options.name)
    redirect_library_logs(plan.folder / "ray.log")
    log = open_log(plan.folder)
    found = examine(plan, log)
    if found and options.fix:
        print("\n".join(["mending:", *(f"  {each}" for each in found)]))
        reconcile(plan, log)
        found = examine(plan, log)
    print("\n".join(found) if found else f"{plan.name}: Ray, Optuna, MLflow and the log agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
