"""The plan of a sweep or a comparison in words, without running it; `--dry-run` prints it."""

import os
import time
from pathlib import Path
from typing import Any

import torch

import search_spaces
from orchestrator.common.redaction import masked
from orchestrator.execution.driver import base_config
from orchestrator.execution.trial import trial_config
from orchestrator.execution.tuner import (
    LOCAL,
    Resources,
    address_of,
    place,
    slots,
    space_of,
    start_ray,
)
from orchestrator.planning.plan import ComparisonPlan, SearchPlan, SweepPlan
from tardis_core.build import load_data
from tardis_core.config import Config
from tardis_core.tasks.base import TASKS
from tardis_core.training.loop import Trainer

MEASURE_SECONDS = 3.0  # of training, for the estimate of time


def describe(plan: SweepPlan, address: str | None) -> str:
    """What would be searched or compared, on what, for how long, and where it would go."""
    data = load_data(base_config(plan), plan.data_dir, plan.data)
    about = TASKS.get(plan.task).provenance(base_config(plan).task_settings, data)
    address = address_of(address)
    cluster = _nodes(address)
    at_once = slots(plan, cluster)
    found = ", ".join(
        f"{sum(node.get(kind, 0) for node in cluster):g} {kind}s" for kind in ("CPU", "GPU")
    )
    lines = [
        f"sweep {plan.name}: {plan.trials} trials of {plan.task}, scale {plan.scale}",
        "",
        *_contents(plan),
        "",
        f"data      {about.name}, {about.origin}",
        f"at once   {at_once} trials of {plan.cpus_per_trial:g} CPUs and "
        f"{plan.gpus_per_trial:g} GPUs ({found} at {place(address)})",
        f"time      {_time(plan, data, at_once)}",
        f"results   {plan.folder}, checkpoints in {masked(plan.ray_storage)}",
        f"tracking  {masked(plan.tracking_uri)}",
    ]
    if isinstance(plan, SearchPlan) and plan.confirm_seeds:
        lines.append(f"then      the best few again with {plan.confirm_seeds} other seeds each")
    return "\n".join(lines)


def _nodes(address: str) -> list[Resources]:
    """What the cluster has; Ray is not started just to count the cores of this machine."""
    if address != LOCAL:
        return start_ray(address, Path(os.devnull))
    return [{"CPU": float(os.cpu_count() or 1), "GPU": float(torch.cuda.device_count())}]


def _contents(plan: SweepPlan) -> list[str]:
    match plan:
        case SearchPlan():
            return _space(plan)
        case ComparisonPlan():
            return _systems(plan)
    raise TypeError(f"not a plan: {plan}")


def _space(plan: SearchPlan) -> list[str]:
    space = space_of(plan)
    rows = search_spaces.describe(space.inner, plan.scale, plan.estimators, plan.models)
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{width}}  {text}" for name, text in rows]
    guesses = space.first_guesses()
    lines += ["", f"tried first: {len(guesses) or 'nothing in particular'}"]
    return lines + ["  " + ", ".join(f"{k}={v}" for k, v in each.items()) for each in guesses]


def _systems(plan: ComparisonPlan) -> list[str]:
    width = max(len(each.label) for each in plan.candidates)
    lines = [
        f"  {each.label:<{width}}  " + ", ".join(f"{k}={v}" for k, v in each.settings.items())
        for each in plan.candidates
    ]
    return [*lines, "", f"each with the seeds {', '.join(map(str, plan.seeds))}"]


def _time(plan: SweepPlan, data: Any, at_once: int) -> str:
    """From a few updates of each kind of trial on this machine."""
    torch.set_num_threads(max(1, int(plan.cpus_per_trial)))
    seconds = updates = 0.0
    for config, count in _kinds(plan):
        made = config.training.updates * count
        seconds += _seconds_an_update(Trainer(config, data, "auto")) * made
        updates += made
    return (
        f"at most about {_words(seconds / max(1, at_once))} for the updates "
        f"({1000 * seconds / updates:.3g} ms each here, {updates / plan.trials:,.0f} a trial); "
        f"validation adds to it{', pruning saves of it' if isinstance(plan, SearchPlan) else ''}"
    )


def _kinds(plan: SweepPlan) -> list[tuple[Config, int]]:
    """Configurations to measure, with how many trainings are like each.

    Those of a search are unknown: all stand for the first guess, or for the defaults.
    """
    match plan:
        case ComparisonPlan():
            settings, count = [each.settings for each in plan.candidates], len(plan.seeds)
        case SearchPlan():
            guess, names = next(iter(space_of(plan).first_guesses()), {}), {"model", "estimator"}
            chosen = {key: value for key, value in guess.items() if "." in key or key in names}
            settings, count = [{**chosen, **plan.fixed}], plan.trials * plan.seeds_per_trial
    return [(trial_config(plan.task, plan.scale, plan.seed, each), count) for each in settings]


def _seconds_an_update(trainer: Trainer) -> float:
    trainer.step()  # the first one allocates
    started, count = time.perf_counter(), 0
    while count < 1 or time.perf_counter() - started < MEASURE_SECONDS:
        trainer.step()
        count += 1
    return (time.perf_counter() - started) / count


def _words(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(1, round(seconds))} seconds"
