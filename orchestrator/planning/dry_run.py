"""A plan in words, without running it; `--dry-run` prints it."""

import time
from typing import Any, NamedTuple

import torch

import search_spaces
from orchestrator.common.redaction import masked
from orchestrator.planning import sweep_data
from orchestrator.planning.configs import first_configs, space_of
from orchestrator.planning.plan import ComparisonPlan, SearchPlan, SweepPlan
from tardis_core.config import Config
from tardis_core.text import counted, duration
from tardis_core.training.loop import Trainer

MEASURE_SECONDS = 3.0  # of training, to estimate the time


class Capacity(NamedTuple):
    """Where a sweep would run, and the room it has there."""

    place: str  # such as "this machine"
    cpus: float
    gpus: float
    slots: int  # trials that run at the same time


def describe(plan: SweepPlan, cluster: Capacity) -> str:
    """What would be searched or compared, on what, for how long, and where the results would go."""
    plan, data, source = sweep_data.load(plan)
    lines = [
        f"sweep {plan.name}: {plan.size}, scale {plan.scale}",
        "",
        *_contents(plan),
        "",
        f"data        {source.name}, {source.origin}",
        f"concurrent  {counted(cluster.slots, 'trial')} of "
        f"{_resources(plan.cpus_per_trial, plan.gpus_per_trial)} each; {cluster.place} has "
        f"{_resources(cluster.cpus, cluster.gpus)}",
        *([f"GPUs        {plan.gpu_reason}"] if plan.gpu_reason else []),
        f"time        {_time(plan, data, cluster.slots)}",
        f"results     {plan.folder}, checkpoints in {masked(plan.ray_storage)}",
        f"tracking    {masked(plan.tracking_uri)}",
    ]
    if isinstance(plan, SearchPlan) and plan.confirm_seeds:
        seeds = counted(plan.confirm_seeds, "other seed")
        lines.append(f"then        the best three again with {seeds} each")
    return "\n".join(lines)


def _resources(cpus: float, gpus: float) -> str:
    """Such as `1 CPU and 0.5 GPUs`."""
    amounts = ((cpus, "CPU"), (gpus, "GPU"))
    return " and ".join(f"{amount:g} {kind}{'s' * (amount != 1)}" for amount, kind in amounts)


def _contents(plan: SweepPlan) -> list[str]:
    match plan:
        case SearchPlan():
            return _space(plan)
        case ComparisonPlan():
            return _candidates(plan)
    raise TypeError(f"neither a search nor a comparison: {plan}")


def _space(plan: SearchPlan) -> list[str]:
    space = space_of(plan)
    rows = search_spaces.describe(space.inner, plan.scale, plan.estimators, plan.models)
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{width}}  {text}" for name, text in rows]
    lines += ["", f"proposed by {plan.sampler}, stopped early by {plan.scheduler}"]
    guesses = [] if plan.sampler == "grid" else space.first_guesses()
    lines += ["", f"tried first: {len(guesses) or 'nothing in particular'}"]
    return lines + ["  " + ", ".join(f"{k}={v}" for k, v in each.items()) for each in guesses]


def _candidates(plan: ComparisonPlan) -> list[str]:
    width = max(len(each.label) for each in plan.candidates)
    lines = [
        f"  {each.label:<{width}}  " + ", ".join(f"{k}={v}" for k, v in each.settings.items())
        for each in plan.candidates
    ]
    return [*lines, "", f"each with the seeds {', '.join(map(str, plan.seeds))}"]


def _time(plan: SweepPlan, data: Any, slots: int) -> str:
    """An estimate from a few updates of each kind of trial on this machine."""
    torch.set_num_threads(max(1, int(plan.cpus_per_trial)))
    seconds = updates = 0.0
    for config, trainings in _trainings(plan):
        count = config.training.updates * trainings
        seconds += _seconds_per_update(Trainer(config, data, "auto")) * count
        updates += count
    return (
        f"at most about {duration(seconds / max(1, slots))} for the updates "
        f"({1000 * seconds / updates:.3g} ms each here, {updates / plan.trials:,.0f} per trial); "
        f"validation takes more{', pruning less' if isinstance(plan, SearchPlan) else ''}"
    )


def _trainings(plan: SweepPlan) -> list[tuple[Config, int]]:
    """Configurations to measure, with the number of trainings that each stands for.

    Those of a search are unknown: the first guess, or the defaults, stand for all.
    """
    match plan:
        case ComparisonPlan():
            return [(config, len(plan.seeds)) for config in first_configs(plan)]
        case SearchPlan():
            return [(first_configs(plan)[0], plan.trials * plan.seeds_per_trial)]
    raise TypeError(f"neither a search nor a comparison: {plan}")


def _seconds_per_update(trainer: Trainer) -> float:
    trainer.step()  # the first one allocates
    started, count = time.perf_counter(), 0
    while count < 1 or time.perf_counter() - started < MEASURE_SECONDS:
        trainer.step()
        count += 1
    return (time.perf_counter() - started) / count
