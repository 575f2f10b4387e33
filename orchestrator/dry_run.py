"""The plan of a sweep in words, without running it; `--dry-run` prints it."""

import os
import time
from pathlib import Path
from typing import Any

import torch

import search_spaces
from orchestrator.masking import masked
from orchestrator.plan import SweepPlan
from orchestrator.run import Resources, slots, space_of, start_ray
from orchestrator.session import base_config
from orchestrator.trial import trial_config
from tardis_core.build import load_data
from tardis_core.tasks.base import TASKS
from tardis_core.training.loop import Trainer

MEASURE_SECONDS = 3.0  # of training, for the estimate of time


def describe(plan: SweepPlan, address: str | None) -> str:
    """What would be searched, on what, with what, for how long, and where it would go."""
    data = load_data(base_config(plan), plan.data_dir, plan.data)
    about = TASKS.get(plan.task).provenance(base_config(plan).task_settings, data)
    cluster = _nodes(address)
    at_once = slots(plan, cluster)
    found = ", ".join(
        f"{sum(node.get(kind, 0) for node in cluster):g} {kind}s" for kind in ("CPU", "GPU")
    )
    lines = [
        f"sweep {plan.name}: {plan.trials} trials of {plan.task}, scale {plan.scale}",
        "",
        *_space(plan),
        "",
        f"data      {about.name}, {about.origin}",
        f"at once   {at_once} trials of {plan.cpus_per_trial:g} CPUs and "
        f"{plan.gpus_per_trial:g} GPUs ({found} at {address or 'this machine'})",
        f"time      {_time(plan, data, at_once)}",
        f"results   {plan.folder}, checkpoints in {masked(plan.ray_storage)}",
        f"tracking  {masked(plan.tracking_uri)}",
    ]
    if plan.replicates:
        lines.append(f"then      the best few again with {plan.replicates} other seeds each")
    return "\n".join(lines)


def _nodes(address: str | None) -> list[Resources]:
    """What the cluster has; Ray is not started just to count the cores of this machine."""
    if address is not None:
        return start_ray(address, Path(os.devnull))
    return [{"CPU": float(os.cpu_count() or 1), "GPU": float(torch.cuda.device_count())}]


def _space(plan: SweepPlan) -> list[str]:
    space = space_of(plan)
    rows = search_spaces.describe(space.inner, plan.scale, plan.estimators, plan.models)
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{width}}  {text}" for name, text in rows]
    guesses = space.first_guesses()
    lines += ["", f"tried first: {len(guesses)} configurations of the paper"]
    return lines + ["  " + ", ".join(f"{k}={v}" for k, v in each.items()) for each in guesses]


def _time(plan: SweepPlan, data: Any, at_once: int) -> str:
    """From a few updates of the first guess, or of the defaults, on this machine."""
    guesses = space_of(plan).first_guesses()
    names = {"model", "estimator"}
    chosen = {k: v for k, v in guesses[0].items() if "." in k or k in names} if guesses else {}
    config = trial_config(plan.task, plan.scale, plan.seed, {**chosen, **plan.fixed})
    torch.set_num_threads(max(1, int(plan.cpus_per_trial)))
    each = _seconds_an_update(Trainer(config, data, "auto"))
    updates = config.training.updates
    total = each * updates * plan.trials / max(1, at_once)
    return (
        f"at most about {_words(total)} for the updates ({1000 * each:.3g} ms each here, "
        f"{updates:,} a trial); validation adds to it, pruning saves of it"
    )


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
