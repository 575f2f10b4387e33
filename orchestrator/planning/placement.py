"""Where trials fit: the share of a GPU and the CPUs of a trial, and how many run concurrently."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from orchestrator.planning.plan import SweepPlan

AUTO = "auto"  # gpus_per_trial: by the cluster
MAX_TRIALS_PER_GPU = 4
MEMORY_MARGIN = 0.2  # share of a GPU's memory that stays free: later trials may be larger
RESOLUTION = 10_000  # Ray counts resources in ten-thousandths

Resources = Mapping[str, float]
Plan = TypeVar("Plan", bound=SweepPlan)


class Footprint(NamedTuple):
    """What the largest trial that was tried on a GPU takes of it."""

    memory: float  # bytes at its peak
    total_memory: float  # bytes of the GPU
    step_seconds: float


class Cluster(NamedTuple):
    """What planning asks a cluster; each question is asked only if the answer is needed."""

    nodes: Callable[[], Sequence[Resources]]
    footprint: Callable[[SweepPlan], Footprint | None]  # None: every GPU is busy


NO_CLUSTER = Cluster(nodes=lambda: (), footprint=lambda _: None)


def uses_gpus(gpus_per_trial: float | str, nodes: Sequence[Resources]) -> bool:
    """Whether trials run on GPUs."""
    if isinstance(gpus_per_trial, str):
        return any(node.get("GPU", 0) >= 1 for node in nodes)
    return gpus_per_trial > 0


def place(
    plan: Plan, gpus_per_trial: float | str, cpus_per_trial: float | None, cluster: Cluster
) -> Plan:
    """The plan with the GPUs and CPUs of a trial.

    Args:
        gpus_per_trial: a number, or `AUTO`.
        cpus_per_trial: None: 1, or less where all GPUs could not be filled otherwise.
    """
    nodes = cluster.nodes()
    gpus, reason = gpus_per_trial, ""
    if isinstance(gpus, str):
        gpus, reason = _chosen(plan, cluster) if uses_gpus(gpus, nodes) else (0.0, "")
    cpus = cpu_share(gpus, nodes) if cpus_per_trial is None else cpus_per_trial
    return replace(plan, gpus_per_trial=gpus, gpu_reason=reason, cpus_per_trial=cpus)


def _chosen(plan: SweepPlan, cluster: Cluster) -> tuple[float, str]:
    """The share of a GPU for each trial, and the reason."""
    footprint = cluster.footprint(plan)
    if footprint is None:
        return 1.0, "one trial per GPU: all GPUs were busy, and nothing could be measured"
    memory, total, seconds = footprint
    if memory >= total:
        return 1.0, "one trial per GPU: the largest one measured does not fit on one"
    count = trials_per_gpu(memory, total)
    return share_of(count), (
        f"{count} per GPU: the largest one measured takes {memory / 1e9:.2g} of {total / 1e9:.3g} "
        f"GB and {1000 * seconds:.3g} ms per update"
    )


def trials_per_gpu(memory: float, total_memory: float, limit: int = MAX_TRIALS_PER_GPU) -> int:
    """How many trials of this memory share a GPU: at least one, and at most `limit`."""
    usable = (1 - MEMORY_MARGIN) * total_memory
    return max(1, int(min(limit, usable / memory))) if memory > 0 else limit


def share_of(count: int) -> float:
    """The largest share of a GPU that `count` trials can have each."""
    return (RESOLUTION // count) / RESOLUTION


def cpu_share(gpus: float, nodes: Sequence[Resources]) -> float:
    """The CPUs of a trial: 1, or less if a node could not fill its GPUs with such trials."""
    full = [(node.get("CPU", 0.0), _gpu_trials(gpus, node)) for node in nodes if gpus]
    shares = [
        math.floor(cpus / trials * RESOLUTION) / RESOLUTION for cpus, trials in full if trials
    ]
    return min([1.0, *shares])


def slots(plan: SweepPlan, nodes: Sequence[Resources]) -> int:
    """The maximum number of concurrent trials."""
    if plan.autoscale:
        return plan.concurrency  # trials that wait are what makes the cluster grow
    fits = sum(_fits(plan, node) for node in nodes)
    return min(fits, plan.concurrency) if plan.concurrency else fits


def _fits(plan: SweepPlan, node: Resources) -> int:
    """How many trials fit on a node: each is on one node."""
    limits = []
    if plan.cpus_per_trial:
        limits.append(_times(node.get("CPU", 0), plan.cpus_per_trial))
    if plan.gpus_per_trial:
        limits.append(_gpu_trials(plan.gpus_per_trial, node))
    return min(limits, default=1)


def _gpu_trials(gpus: float, node: Resources) -> int:
    """How many trials the GPUs of a node have room for: a fraction is of one GPU."""
    present = node.get("GPU", 0)
    return _times(present, gpus) if gpus >= 1 else int(present) * _times(1, gpus)


def _times(whole: float, part: float) -> int:
    return int(whole / part + 1e-9)  # three times 0.1 is a little more than 0.3
