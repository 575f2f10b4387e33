"""Do Ray, Optuna and MLflow agree about a sweep? `python -m orchestrator.doctor NAME`.

With --gpu: do the GPU kernels work on every node of a cluster?
"""

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.common.library_logs import redirect_library_logs
from orchestrator.common.redaction import masked
from orchestrator.planning.plan import SearchPlan, SweepPlan, load_plan, names_here
from orchestrator.tracking.data_tags import DataRecord, recorded_data
from orchestrator.tracking.event_log import LOG, EventLog, open_log, set_log_damage_aside
from orchestrator.tracking.events import Metrics, SweepEnded, TrialEnded, TrialStarted
from orchestrator.tracking.states import State
from tardis_core.cli import Parser, command
from tardis_core.errors import UserError

SEND_SECONDS = 120
RUNNING = State.RUNNING.mlflow_status


@dataclass
class Account:
    """What one side knows about the trials, by number."""

    status: dict[int, str] = field(default_factory=dict)  # RUNNING, FINISHED, KILLED or FAILED
    steps: dict[int, list[int]] = field(default_factory=dict)  # of the metrics
    duplicates: list[int] = field(default_factory=list)  # trials that have several runs


def account_of_log(log: EventLog) -> Account:
    """What was recorded: the truth that the others are compared with."""
    account = Account()
    for event, _ in log.read(0):
        match event:
            case TrialStarted(number=number):
                account.status[number] = RUNNING
                account.steps.setdefault(number, [])
            case Metrics(number=number, step=step, values=values):
                account.status[number] = RUNNING
                if any(name.startswith("valid_") for name in values):
                    account.steps.setdefault(number, []).append(step)
            case TrialEnded(number=number):
                account.status[number] = State.from_event(event).mlflow_status
    return account


def account_of_study(plan: SearchPlan) -> Account:
    """What Optuna has; queued trials are left out."""
    # Here and below: Optuna and MLflow take seconds to import, and `--help` needs neither.
    from optuna.trial import TrialState

    from orchestrator.execution.study import study_trials

    trials = study_trials(plan.folder, plan.name)
    return Account(
        {
            trial.number: State.from_optuna(trial.state).mlflow_status
            for trial in trials
            if trial.state is not TrialState.WAITING
        }
    )


def account_of_mlflow(plan: SweepPlan) -> Account:
    """What the tracking store has."""
    from orchestrator.tracking.mlflow_runs import TRIAL, runs_of_sweep
    from orchestrator.tracking.mlflow_store import reach_store

    client, experiment_id = reach_store(plan.tracking_uri, plan.experiment)
    account = Account()
    for run in runs_of_sweep(client, experiment_id, plan.sweep_id):
        if TRIAL not in run.data.tags:
            continue
        number = int(run.data.tags[TRIAL])
        if number in account.status:
            account.duplicates.append(number)
        account.status[number] = run.info.status
        history = client.get_metric_history(run.info.run_id, f"valid_{plan.metric}")
        account.steps[number] = [each.step for each in history]
    return account


def compare_mlflow(log: Account, mlflow: Account) -> list[str]:
    """Where MLflow disagrees with the log, one sentence each."""
    problems = [f"MLflow has trial {number} more than once" for number in mlflow.duplicates]
    problems += compare_status("MLflow", mlflow.status, log.status)
    for number, steps in log.steps.items():
        recorded = mlflow.steps.get(number, [])
        missing, extra = Counter(steps) - Counter(recorded), Counter(recorded) - Counter(steps)
        if missing:
            problems.append(
                f"MLflow lacks {missing.total()} of {len(steps)} steps of trial {number}"
            )
        if extra:
            problems.append(f"MLflow has {extra.total()} steps of trial {number} too many")
    return problems


def compare_status(who: str, theirs: Mapping[int, str], log: Mapping[int, str]) -> list[str]:
    """Where somebody has another status of a trial than the log, one sentence each."""
    return [
        f"{who} has trial {number} as {theirs.get(number, 'unknown')}, the log as "
        f"{log.get(number, 'unknown')}"
        for number in sorted(theirs.keys() | log.keys())
        if theirs.get(number) != log.get(number)
    ]


def as_in_study(log: Account) -> dict[int, str]:
    """The statuses that Optuna should have: a trial that was stopped runs on when it is resumed."""
    stopped = State.STOPPED.mlflow_status
    return {
        number: RUNNING if status == stopped else status for number, status in log.status.items()
    }


def compare_data(plan: SweepPlan, recorded: Sequence[DataRecord]) -> list[str]:
    """Whether the trials had the data of the plan, and all of them the same."""
    planned = [str(DataRecord(plan.data_name, plan.data_sha256, True))] if plan.data_name else []
    names = list(dict.fromkeys([*planned, *map(str, recorded)]))
    if len(names) < 2:
        return []
    return [f"the trials of {plan.name} were measured on different data: {', '.join(names)}"]


def examine(plan: SweepPlan, log: EventLog) -> list[str]:
    """Everything that is inconsistent, one sentence each."""
    from orchestrator.execution import snapshots

    recorded = account_of_log(log)
    problems = compare_mlflow(recorded, account_of_mlflow(plan))
    if isinstance(plan, SearchPlan):  # a comparison has no study
        problems += compare_status("Optuna", account_of_study(plan).status, as_in_study(recorded))
    # Trials that were opened again have ended in an older snapshot.
    reopened = isinstance(plan, SearchPlan) and (plan.longer_since or plan.pauses)
    ended = set() if reopened else snapshots.ended_trials(plan.ray_storage)
    for number in sorted(ended):
        if recorded.status.get(number, RUNNING) == RUNNING:
            problems.append(f"Ray has trial {number} as ended, the log does not")
    problems += compare_data(plan, recorded_data(plan.folder))
    if log.waiting:
        problems.append(f"{log.waiting} events have not been sent to {masked(plan.tracking_uri)}")
    return problems


def _set_damage_aside(plan: SweepPlan) -> list[str]:
    """Move lines of the log and the study that cannot be read to files of their own."""
    from orchestrator.execution.study import STUDY_FILE, set_study_damage_aside

    counts = {
        LOG: set_log_damage_aside(plan.folder),
        STUDY_FILE: set_study_damage_aside(plan.folder),
    }
    return [f"{count} damaged lines of {name}" for name, count in counts.items() if count]


def rebuild(plan: SweepPlan, log: EventLog) -> list[str]:
    """Add to the log what it has lost; returns what could not be recovered."""
    from orchestrator.execution.recovery import recover
    from orchestrator.tracking.mlflow_store import reach_store
    from orchestrator.tracking.recovery import events_in_mlflow

    client, experiment_id = reach_store(plan.tracking_uri, plan.experiment)
    return recover(plan, log, events_in_mlflow(client, experiment_id, plan.sweep_id))


def reconcile(plan: SweepPlan, log: EventLog) -> None:
    """Send the whole log again: what MLflow has stays as it is, what it lacks is added."""
    from orchestrator.tracking.tracker import Tracker

    if log.open_trials():
        log.append(SweepEnded("KILLED"))  # they do not run; --resume continues them
    log.mark_sent(0)
    tracker = Tracker(log, plan.tracking_uri, plan.experiment, plan.sweep_id)
    tracker.start()
    tracker.close(SEND_SECONDS)


def _check_gpus(address: str | None) -> int:
    """Print one line per node with GPUs; exit code 1 if a GPU cannot train."""
    # Only now: comparing records needs no torch.
    from orchestrator.execution.cluster import address_of, place, start_ray
    from orchestrator.execution.gpu_check import check_nodes

    start_ray(address, Path(os.devnull))
    answers = check_nodes()
    for node, answer in answers:
        print(f"{node}  {answer}")
    if not answers:
        print(f"no GPUs at {place(address_of(address))}")
    return 1 if any(answer.startswith("cannot") for _, answer in answers) else 0


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(prog="python -m orchestrator.doctor", description=__doc__)
    parser.add_argument("name", nargs="?", help="name of a sweep that is not running")
    parser.add_argument(
        "--fix",
        action="store_true",
        help="move damaged lines of the log and the study to files of their own, rebuild the log, "
        "and bring MLflow up to date",
    )
    parser.add_argument(
        "--gpu", action="store_true", help="check the GPU kernels on every node with GPUs instead"
    )
    parser.add_argument("--address", metavar="HOST:PORT", help="Ray cluster to check with --gpu")
    return parser


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and with --fix make them agree."""
    options = parser().parse_args(arguments)
    if options.gpu:
        return _check_gpus(options.address)
    if options.name is None:
        raise UserError(
            f"name a sweep ({', '.join(names_here()) or 'there are none here'}), or use --gpu"
        )
    plan = load_plan(options.name)
    # Here, as it takes seconds, and before the logs: Ray makes its handlers when it is imported.
    import ray.tune  # noqa: F401

    redirect_library_logs(plan.folder / "ray.log")
    lost = _set_damage_aside(plan) if options.fix else []
    with closing(open_log(plan.folder)) as log:
        problems = [*lost, *examine(plan, log)]
        if problems and options.fix:
            print("\n".join(["fixing:", *(f"  {each}" for each in problems)]))
            lost = rebuild(plan, log)
            reconcile(plan, log)
            problems = [*examine(plan, log), *lost]
    agreement = f"{plan.name}: Ray, Optuna, MLflow and the log agree"
    print("\n".join(problems) if problems else agreement)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
