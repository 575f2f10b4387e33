"""A sweep from its plan to its end: checked, run, recorded and reported."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from ray import tune

from orchestrator.common import permissions, provenance
from orchestrator.common.background import Background
from orchestrator.common.library_logs import redirect_library_logs
from orchestrator.common.redaction import masked
from orchestrator.execution import node, preflight, warm_start
from orchestrator.execution.cluster import reach, start_ray
from orchestrator.execution.control import Control
from orchestrator.execution.lengthening import reopen_trials
from orchestrator.execution.on_end import notify
from orchestrator.execution.ray_watch import OnDeath, watching
from orchestrator.execution.recovery import check_complete
from orchestrator.execution.tuner import ended, run
from orchestrator.execution.view import View
from orchestrator.planning import sweep_data
from orchestrator.planning.constraints import check_satisfiable
from orchestrator.planning.lengthening import in_words
from orchestrator.planning.placement import slots
from orchestrator.planning.plan import SearchPlan, SweepPlan
from orchestrator.planning.sweep_data import SweepData
from orchestrator.tracking.data_tags import DataRecord, recorded_data
from orchestrator.tracking.delivery import REFUSED
from orchestrator.tracking.event_log import EventLog, open_log
from orchestrator.tracking.events import Event, SweepEnded, SweepStarted
from orchestrator.tracking.mlflow_store import database_file, prepare_store
from orchestrator.tracking.tracker import Tracker
from tardis_core.cli import EXIT_FAILED, EXIT_INTERRUPTED
from tardis_core.data.dataset import Provenance
from tardis_core.errors import UserError
from tardis_core.stopping import Interrupted, stop_signals

FLUSH_SECONDS = 60
STOP_FLUSH_SECONDS = 3  # of a sweep that somebody has asked to stop

# Writes the report of a sweep from its plan, its data and whether it finished; returns what to
# record of it.
Conclude = Callable[[SweepPlan, Any, bool], list[Event]]


class Outcome(NamedTuple):
    """How a sweep ended."""

    # All trials have ended, or the time is up, and the report is written; otherwise resume it.
    finished: bool
    waiting: int  # events that could not be delivered; they are kept in the sweep's folder
    refused: int  # events that the store refused; they are kept there, too
    failed: bool = False  # it finished, and every trial has failed

    @property
    def exit_code(self) -> int:
        """Of the command that ran the sweep."""
        return EXIT_FAILED if self.failed else 0 if self.finished else EXIT_INTERRUPTED


def run_sweep(
    plan: SweepPlan,
    address: str | None,
    conclude: Conclude,
    on_death: OnDeath,
    callbacks: Sequence[tune.Callback] = (),
) -> Outcome:
    """Run a sweep, whether new or resumed, to its end or until somebody stops it.

    Args:
        address: of an existing Ray cluster; without it one is started on this machine.
        conclude: writes the report when the trials have ended.
        on_death: what follows if the Ray of this machine dies; see `ray_death`.
        callbacks: of the user; Ray calls them while the trials run.
    """
    with stop_signals.listening():
        return _checked_and_run(plan, address, conclude, on_death, callbacks)


def _checked_and_run(
    plan: SweepPlan,
    address: str | None,
    conclude: Conclude,
    on_death: OnDeath,
    callbacks: Sequence[tune.Callback],
) -> Outcome:
    if plan.folder.exists():
        permissions.check_folder(plan.folder)
    reach(address)  # before anything is written
    loaded = sweep_data.load(_with_recorded_data(plan))
    plan = loaded.plan
    warm_start.check_data(plan)
    check_satisfiable(plan, loaded.values)
    store = _preparing_store(plan)
    with _opened(plan) as (log, tracker):
        nodes = start_ray(address, plan.folder / "ray.log")
        max_concurrent = slots(plan, nodes)
        preflight.check(plan, max_concurrent)
        check_complete(plan, log)
        if store is not None:
            store.result()
        plan.save()
    with closing(log), stop_signals.deferring(), watching(on_death):
        return _run(loaded, max_concurrent, log, tracker, conclude, callbacks)


def _preparing_store(plan: SweepPlan) -> Background[str] | None:
    """Open the store; a new database, which takes MLflow seconds, is created while Ray starts."""
    database = database_file(plan.tracking_uri)
    if database is not None and not database.exists():
        return Background(prepare_store, plan.tracking_uri, plan.experiment)
    prepare_store(plan.tracking_uri, plan.experiment)
    return None


def _with_recorded_data(plan: SweepPlan) -> SweepPlan:
    """The plan with the name of its data, which older versions wrote only to the event log."""
    recorded = [] if plan.data_name else recorded_data(plan.folder)
    return sweep_data.named_after(plan, *recorded[0]) if recorded else plan


def _run(
    loaded: SweepData,
    max_concurrent: int,
    log: EventLog,
    tracker: Tracker,
    conclude: Conclude,
    callbacks: Sequence[tune.Callback] = (),
) -> Outcome:
    plan, data, source = loaded
    print(_headline(plan, source, max_concurrent), flush=True)
    log.append(SweepStarted(plan.name, _tags(plan, source), _params(plan)))
    tracker.start()
    try:
        if lesson := warm_start.learn(plan):
            print(lesson, flush=True)
        for sentence in reopen_trials(plan, log):
            print(sentence, flush=True)
        trained = _train(plan, data, max_concurrent, callbacks)
        reported = _concluded(conclude, plan, data, trained)
        log.append(*reported or ())
    except BaseException as error:
        with suppress(OSError):  # the disk may still be full
            log.append(SweepEnded("FAILED"))
        tracker.close(_flush_seconds())
        notify(plan)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise UserError(
                f"the disk of {plan.folder} is full; make room and continue with --resume "
                f"{plan.name}: nothing that was written is lost"
            ) from error
        raise
    finished = trained and reported is not None
    failed = finished and log.all_failed()
    log.append(SweepEnded("FAILED" if failed else "FINISHED" if finished else "KILLED"))
    waiting = tracker.close(_flush_seconds())
    notify(plan)
    return Outcome(finished, waiting, tracker.refused, failed)


def _train(
    plan: SweepPlan, data: Any, max_concurrent: int, callbacks: Sequence[tune.Callback]
) -> bool:
    """Run the trials; whether all have ended, or the time is up."""
    control = Control(plan)
    with View(plan.without_secrets()) as view, suppress(Interrupted):
        run(plan, data, max_concurrent, [view, *callbacks], control)
    out_of_time = 0 < plan.time_budget <= control.running_seconds()
    return ended(plan) >= plan.trials or out_of_time


def _concluded(
    conclude: Conclude, plan: SweepPlan, data: Any, finished: bool
) -> list[Event] | None:
    """The events of the report; none if a signal skipped it: then the next start writes it.

    Of a sweep whose trials have ended it takes long: it tests the best and may register it.
    """
    if finished and stop_signals.number is not None:
        return None
    try:
        with stop_signals.interrupting():
            return conclude(plan, data, finished)
    except Interrupted:
        return None


def _flush_seconds() -> float:
    return FLUSH_SECONDS if stop_signals.number is None else STOP_FLUSH_SECONDS


@contextmanager
def _opened(plan: SweepPlan) -> Iterator[tuple[EventLog, Tracker]]:
    """The event log of the sweep and its tracker, which starts up while Ray does.

    A new folder is removed again if the preflight checks fail.
    """
    new = not plan.folder.exists()
    log = open_log(plan.folder)  # a second driver of the same sweep ends here
    tracker = Tracker(log, plan.tracking_uri, plan.experiment, plan.sweep_id, separate_process=True)
    try:
        yield log, tracker
    except BaseException:
        tracker.close(0)
        log.close()
        if new:
            redirect_library_logs(Path(os.devnull))  # their log is in the folder
            shutil.rmtree(plan.folder)
        raise


def undelivered(plan: SweepPlan, outcome: Outcome) -> list[str]:
    """What to tell the user about events that are not in MLflow; nothing if all are."""
    lines = []
    if outcome.waiting:
        lines.append(
            f"waiting:  {outcome.waiting} events could not be sent to {masked(plan.tracking_uri)}; "
            f"they are kept; send them with: python -m orchestrator.doctor {plan.name} --fix"
        )
    if outcome.refused:
        lines.append(
            f"refused:  MLflow refused {outcome.refused} events; they and the reasons are in "
            f"{plan.folder / REFUSED}"
        )
    return lines


def _headline(plan: SweepPlan, source: Provenance, max_concurrent: int) -> str:
    return (
        f"sweep {plan.name}: {plan.size}, scale {plan.scale} (change with --scale), "
        f"up to {max_concurrent} concurrent, seed {plan.seed}\n"
        f"{_place(plan)}"
        f"{_longer(plan)}"
        f"data: {source.name}, {source.origin}\n"
        f"tracked in {masked(plan.tracking_uri)}; stop with Ctrl-C, nothing is lost"
    )


def _place(plan: SweepPlan) -> str:
    if not plan.gpus_per_trial:
        return ""
    reason = f" ({plan.gpu_reason})" if plan.gpu_reason else ""
    return f"per trial: {plan.gpus_per_trial:g} GPUs{reason}, {plan.cpus_per_trial:g} CPUs\n"


def _longer(plan: SweepPlan) -> str:
    if not isinstance(plan, SearchPlan) or not plan.longer_since:
        return ""
    return f"{in_words(plan)}\n"


def _params(plan: SweepPlan) -> dict[str, Any]:
    # The URI is where one looks; the candidates are recorded with their trials.
    hidden = {"tracking_uri", "candidates", "plugins", "on_end"}
    values = asdict(plan.without_secrets())
    return {key: value for key, value in values.items() if key not in hidden}


def _tags(plan: SweepPlan, source: Provenance) -> dict[str, str]:
    return {
        **plan.tags,
        **DataRecord(source.name, source.sha256, source.real).tags,
        "git_commit": provenance.git_commit(),
        "command": provenance.command_line(),
        "user": provenance.user(),
        "hardware": provenance.hardware(),
        **{f"version.{name}": value for name, value in node.versions().items()},
    }
