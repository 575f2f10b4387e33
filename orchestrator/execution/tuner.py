"""A sweep on Ray Tune: started, restored after whatever ended it, and run to its end."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from optuna.trial import FrozenTrial
from ray import tune
from ray.tune.experiment import Trial

import search_spaces
from orchestrator.common.library_logs import redirect_library_logs
from orchestrator.execution import ray_token
from orchestrator.execution.asha import Asha
from orchestrator.execution.checkpoints import next_experiment
from orchestrator.execution.recorder import Recorder, number_of
from orchestrator.execution.search import Search, open_study
from orchestrator.execution.trial import train_trial
from orchestrator.planning.configs import space_of
from orchestrator.planning.plan import ComparisonPlan, SearchPlan, SweepPlan
from orchestrator.results import records
from tardis_core.errors import UserError

WORKER_RETRIES = 3  # of a trial whose process or node died

# Read by Ray when it starts, in this process and in its children.
RAY_SETTINGS = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # A snapshot of the experiment at its end only: nothing is restored from one, and each takes the
    # longer the more trials there are.
    "TUNE_GLOBAL_CHECKPOINT_S": "inf",
    # Notice a dead node in about ten seconds instead of a minute.
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "3000",
}


Resources = dict[str, float]
LOCAL = "local"  # a Ray of our own on this machine


def address_of(asked: str | None) -> str:
    """Where a sweep runs: Ray itself would join whatever cluster runs on this machine."""
    return asked or os.environ.get("RAY_ADDRESS") or LOCAL


def place(address: str) -> str:
    """An address in words."""
    return "this machine" if address == LOCAL else address


def reach(address: str | None) -> None:
    """Raise `UserError` unless the cluster that was asked for, if any, takes us."""
    address = address_of(address)
    if not ray.is_initialized() and address not in (LOCAL, "auto"):
        ray_token.check_reachable(address)


def start_ray(address: str | None, log_file: Path) -> list[Resources]:
    """Connect to a cluster or start one here; returns the resources of its nodes.

    Ray's noise goes to a file.
    """
    for name, value in RAY_SETTINGS.items():
        os.environ.setdefault(name, value)
    redirect_library_logs(log_file)
    if ray.is_initialized():
        return nodes()
    reach(address)
    address = address_of(address)
    if address == LOCAL:
        ray_token.ensure_private_token()
    try:
        ray.init(
            address=address,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.WARNING,
        )
    except Exception as error:  # a bare one if a node is too slow to start
        said = " ".join(str(error).split())
        raise UserError(
            f"Ray could not be reached or started on {place(address)}: {said}"
        ) from error
    return nodes()


def nodes() -> list[Resources]:
    """What each node of the cluster has."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def slots(plan: SweepPlan, cluster: Sequence[Resources]) -> int:
    """How many trials the nodes have room for at once."""
    if plan.autoscale:
        return plan.concurrency  # the trials that wait are what makes the cluster grow
    fits = sum(_room(plan, node) for node in cluster)
    return min(fits, plan.concurrency) if plan.concurrency else fits


def _room(plan: SweepPlan, node: Resources) -> int:
    """A trial has the whole of its share on one node, and a part of a GPU on one GPU."""
    room = []
    if plan.cpus_per_trial:
        room.append(_times(node.get("CPU", 0), plan.cpus_per_trial))
    if plan.gpus_per_trial >= 1:
        room.append(_times(node.get("GPU", 0), plan.gpus_per_trial))
    elif plan.gpus_per_trial:
        room.append(int(node.get("GPU", 0)) * _times(1, plan.gpus_per_trial))
    return min(room, default=1)


def _times(whole: float, part: float) -> int:
    return int(whole / part + 1e-9)  # three times 0.1 is a little more than 0.3


def run(plan: SweepPlan, data: Any, at_once: int, callbacks: list[tune.Callback]) -> None:
    """Run the sweep until every trial has ended; what was left in the middle is taken up.

    Ray's snapshots are not restored: a killed driver leaves them old, or half written. The study
    and the log say what has ended, the checkpoints of the others how far they had come.
    """
    trainable, before = _trainable(plan, data), -1
    while before < ended(plan) < plan.trials:
        before, recorder = ended(plan), _recorder(plan)
        _tuner(plan, trainable, at_once, recorder, callbacks).fit()
        # More is left than Ray gave up: somebody has stopped the sweep.
        if plan.trials - ended(plan) > recorder.times_given_up or plan.time_budget:
            return


def _trainable(plan: SweepPlan, data: Any) -> Any:
    """The trial with its data, which every worker shares through the object store."""
    threads = max(1, int(plan.cpus_per_trial))
    protocol = plan.protocol
    bound = tune.with_parameters(
        train_trial,
        task=plan.task,
        scale=plan.scale,
        seed=plan.seed,
        threads=threads,
        seeds=protocol.seeds,
        judge=protocol.aggregate,
        test=protocol.test,
        retry_smaller_batch=plan.retry_smaller_batch,
        storage=plan.ray_storage,
        data=data,
    )
    return tune.with_resources(bound, resources_of(plan))


def resources_of(plan: SweepPlan) -> Resources:
    """What a trial asks Ray for."""
    return {"cpu": plan.cpus_per_trial, "gpu": plan.gpus_per_trial}


def _recorder(plan: SweepPlan) -> Recorder:
    scheduler = Asha(plan.mode, plan.reports, plan.grace) if isinstance(plan, SearchPlan) else None
    return Recorder(plan.without_secrets(), plan.folder.absolute(), scheduler)


def _tuner(
    plan: SweepPlan,
    trainable: Any,
    at_once: int,
    recorder: Recorder,
    callbacks: list[tune.Callback],
) -> tune.Tuner:
    param_space: dict[str, Any] | None = None
    search: Search | None = None
    samples = 1
    match plan:
        case ComparisonPlan():
            param_space = _listed(plan)
        case SearchPlan():
            search, samples = _search(plan), plan.trials - ended(plan)
    return tune.Tuner(
        trainable,
        param_space=param_space,
        tune_config=tune.TuneConfig(
            search_alg=search,
            num_samples=samples,
            scheduler=recorder.scheduler,
            max_concurrent_trials=at_once,
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
            callbacks=[recorder, *callbacks, _Forget()],
            verbose=0,
        ),
    )


class _Forget(tune.Callback):
    """Lets go of the means that Ray takes of each metric of a trial: 17 kB that nobody asks for."""

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        trial.metric_analysis.clear()
        trial.metric_n_steps.clear()


def _search(plan: SearchPlan) -> Search:
    space = space_of(plan)
    return Search(
        space,
        search_spaces.sampler,
        plan.seed,
        plan.mode,
        plan.name,
        plan.folder.absolute(),
        space.first_guesses(),
    )


def _listed(plan: ComparisonPlan) -> dict[str, Any]:
    """The trials of a comparison that have not ended, in the shape that `Search` proposes."""
    settings = [job.settings for job in plan.jobs()]
    over = {trial.number for trial in records.read(plan).values() if trial.ended}
    return {
        "number": tune.grid_search([each for each in range(len(settings)) if each not in over]),
        "settings": tune.sample_from(lambda chosen: settings[chosen["number"]]),
    }


def trial_name(trial: Trial) -> str:
    """The name and folder of a trial: its number, and Ray's id, which a trial taken up changes."""
    return f"trial-{number_of(trial)}-{trial.trial_id}"


def ended(plan: SweepPlan) -> int:
    """How many trials have ended, in whatever way."""
    if isinstance(plan, ComparisonPlan):
        return sum(trial.ended for trial in records.read(plan).values())
    return sum(each.state.is_finished() for each in study_trials(plan))


def study_trials(plan: SweepPlan) -> list[FrozenTrial]:
    """What the study knows; nothing before the first start of the search has come so far."""
    try:
        return open_study(plan.folder, plan.name).get_trials(deepcopy=False)
    except KeyError:
        return []
