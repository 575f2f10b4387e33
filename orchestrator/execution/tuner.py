"""A sweep on Ray Tune: its trials are run, and those that were interrupted are resumed."""

import errno
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ray import tune
from ray.tune.experiment import Trial

import search_spaces
from orchestrator.execution.callbacks import FreeMemory, RecordTrials, catch_up, number_of
from orchestrator.execution.checkpoints import next_experiment
from orchestrator.execution.cluster import resources_of
from orchestrator.execution.control import Control, LeaveTune
from orchestrator.execution.pausing import end_paused
from orchestrator.execution.race import Race
from orchestrator.execution.schedulers.base import SCHEDULERS, Rule, Scheduler
from orchestrator.execution.search import Pausing, Search
from orchestrator.execution.study import study_trials
from orchestrator.execution.trial import train_trial
from orchestrator.planning.configs import space_of
from orchestrator.planning.constraints import Limits, limits_of
from orchestrator.planning.plan import ComparisonPlan, SearchPlan, SweepPlan
from orchestrator.tracking.event_log import ended_trials
from tardis_core.stopping import Interrupted, stop_signals

WORKER_RETRIES = 3  # of a trial whose process or node died


def run(
    plan: SweepPlan,
    data: Any,
    max_concurrent: int,
    callbacks: list[tune.Callback],
    control: Control | None = None,
) -> None:
    """Run the sweep until every trial has ended; interrupted trials are resumed.

    Ray's snapshots are not restored: a killed driver leaves them outdated or half written. The
    study and the log say which trials have ended, the checkpoints how far the others had come.
    """
    trainable, before = _trainable(plan, data), -1
    limits, control = limits_of(plan, data), control or Control(plan)
    control.begin()
    catch_up(plan, plan.folder)  # also if nothing is left to run
    end_paused(plan)
    while before < ended(plan) < plan.trials:
        control.wait()
        if control.stopped or stop_signals.number:
            return
        before, recorder = ended(plan), _recorder(plan)
        control.attach(recorder.scheduler)
        timed = replace(plan, time_budget=control.time_left())
        with _stopped_by_signals(control), suppress(LeaveTune):
            followers = [*callbacks, control]
            _tuner(timed, trainable, max_concurrent, recorder, followers, limits).fit()
        if control.paused:
            before = -1
            continue
        end_paused(plan)
        if recorder.disk_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # If more are left than Ray has abandoned, the sweep was stopped.
        left = plan.trials - ended(plan)
        if stop_signals.number or left > recorder.abandoned_count or plan.time_budget:
            return


@contextmanager
def _stopped_by_signals(control: Control) -> Iterator[None]:
    """A context in which a signal makes Tune stop its trials; see `Control.on_step_end`."""

    def stop() -> None:
        if not control.in_tune:
            raise Interrupted  # Tune has not started yet

    before = signal.getsignal(signal.SIGUSR1)
    try:
        with stop_signals.reacting(stop):
            yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR1, before)  # Tune leaves its handler behind


def _trainable(plan: SweepPlan, data: Any) -> Any:
    """The trial with its data, which all workers share through the object store."""
    protocol = plan.protocol
    bound = tune.with_parameters(
        train_trial,
        task=plan.task,
        scale=plan.scale,
        seed=plan.seed,
        threads=max(1, int(plan.cpus_per_trial)),
        seeds=protocol.seeds,
        aggregate=protocol.aggregate,
        race=protocol.race,
        test=protocol.test,
        retry_smaller_batch=plan.retry_smaller_batch,
        storage=plan.ray_storage,
        plugins=plan.plugins,
        data=data,
    )
    return tune.with_resources(bound, resources_of(plan))


def _recorder(plan: SweepPlan) -> RecordTrials:
    scheduler = None
    if isinstance(plan, SearchPlan):
        rule = Rule(plan.mode, plan.reports_of_first_seed, plan.grace)
        scheduler = SCHEDULERS.get(plan.scheduler)(rule)
        scheduler = Race(scheduler, rule, plan.aggregate) if plan.race else scheduler
    return RecordTrials(plan.without_secrets(), plan.folder.absolute(), scheduler)


def _tuner(
    plan: SweepPlan,
    trainable: Any,
    max_concurrent: int,
    recorder: RecordTrials,
    callbacks: list[tune.Callback],
    limits: Limits | None = None,
) -> tune.Tuner:
    param_space: dict[str, Any] | None = None
    search: Search | None = None
    samples = 1
    match plan:
        case ComparisonPlan():
            param_space = _remaining(plan)
        case SearchPlan():
            search = _search(plan, limits, recorder.scheduler)
            # Where trials pause, the search says when there are no more.
            samples = -1 if plan.pauses else plan.trials - ended(plan)
    return tune.Tuner(
        trainable,
        param_space=param_space,
        tune_config=tune.TuneConfig(
            search_alg=search,
            num_samples=samples,
            scheduler=recorder.scheduler,
            max_concurrent_trials=max_concurrent,
            reuse_actors=True,
            time_budget_s=plan.time_budget or None,
            trial_name_creator=trial_name,
            trial_dirname_creator=trial_name,
        ),
        run_config=tune.RunConfig(
            name=next_experiment(plan.ray_storage),
            storage_path=plan.ray_storage,
            failure_config=tune.FailureConfig(max_failures=WORKER_RETRIES),
            checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
            callbacks=[recorder, *callbacks, FreeMemory()],
            verbose=0,
        ),
    )


def _search(plan: SearchPlan, limits: Limits | None, scheduler: Scheduler | None) -> Search:
    space = space_of(plan)
    return Search(
        space,
        partial(search_spaces.make_sampler, plan.sampler),
        plan.seed,
        plan.mode,
        plan.name,
        plan.folder.absolute(),
        # A grid has them, or they are not part of it.
        () if plan.sampler == "grid" else space.first_guesses(),
        limits,
        Pausing(scheduler, plan.trials) if scheduler and plan.pauses else None,
    )


def _remaining(plan: ComparisonPlan) -> dict[str, Any]:
    """The trials of a comparison that have not ended, in the form in which `Search` proposes."""
    settings = [job.settings for job in plan.jobs()]
    over = set(ended_trials(plan.folder))
    return {
        "number": tune.grid_search([each for each in range(len(settings)) if each not in over]),
        "settings": tune.sample_from(lambda chosen: settings[chosen["number"]]),
    }


def trial_name(trial: Trial) -> str:
    """The name and folder of a trial: its number, and Ray's id, which changes on every resume."""
    return f"trial-{number_of(trial)}-{trial.trial_id}"


def ended(plan: SweepPlan) -> int:
    """How many trials have ended, whether complete, pruned or failed."""
    if isinstance(plan, ComparisonPlan):
        return len(ended_trials(plan.folder))
    return sum(trial.state.is_finished() for trial in study_trials(plan.folder, plan.name))
