"""Checks before the first trial starts; each failure is one sentence."""

import shutil
import uuid
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.common.redaction import masked
from orchestrator.execution.gpu_probe import check_gpus
from orchestrator.execution.node import filesystem_of, probe, versions
from orchestrator.planning.plan import SweepPlan
from tardis_core.errors import UserError
from tardis_core.text import error_line

MEMORY_PER_TRIAL = 0.7e9  # bytes: a worker with torch loaded
FREE_DISK = 0.5e9


def check(plan: SweepPlan, max_concurrent: int) -> None:
    """Raise `UserError` for the first problem that would make the sweep fail later."""
    if max_concurrent < 1:
        raise UserError(
            f"a trial needs {plan.cpus_per_trial:g} CPUs and {plan.gpus_per_trial:g} GPUs, and the "
            f"cluster has {_cluster_has()}; lower --cpus-per-trial or --gpus-per-trial"
        )
    _check_storage(plan)
    _check_nodes(plan)
    if plan.gpus_per_trial:
        check_gpus()
    if not plan.autoscale:
        _check_memory(max_concurrent)


def _cluster_has() -> str:
    resources = ray.cluster_resources()
    return f"{resources.get('CPU', 0):g} CPUs and {resources.get('GPU', 0):g} GPUs"


def _check_storage(plan: SweepPlan) -> None:
    try:
        filesystem, path = filesystem_of(plan.ray_storage)
        filesystem.create_dir(path, recursive=True)
    except (OSError, ValueError) as error:
        raise UserError(
            "--storage must be a folder or URI to write to, not "
            f"{masked(plan.ray_storage)} ({masked(str(error))})"
        ) from error
    if "://" not in plan.ray_storage and shutil.disk_usage(path).free < FREE_DISK:
        raise UserError(f"less than {FREE_DISK / 1e9:g} GB is free in {path}; make room there")


def _check_nodes(plan: SweepPlan) -> None:
    """Every node must see the driver's storage and have the same versions."""
    filesystem, path = filesystem_of(plan.ray_storage)
    probe_file = f"{path}/.probe-{uuid.uuid4().hex}"
    with filesystem.open_output_stream(probe_file) as stream:
        stream.write(b"shared")
    try:
        here = ray.get_runtime_context().get_node_id()  # has the driver's own storage and versions
        nodes = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] != here]
        probes = [_probe_on(node["NodeID"], plan.ray_storage, probe_file) for node in nodes]
        answers = ray.get(probes)
    except RayError as error:
        raise UserError(
            "every node must have this program and the storage, and one did not answer "
            f"({masked(error_line(error, last=True))}); install both, or use the image"
        ) from error
    finally:
        filesystem.delete_file(probe_file)
    for node, (sees, theirs) in zip(nodes, answers, strict=True):
        _check_node(node["NodeManagerAddress"], sees, theirs, plan.ray_storage)


def _check_node(address: str, sees: bool, theirs: dict[str, str], storage: str) -> None:
    if not sees:
        raise UserError(
            f"the storage {masked(storage)} is not shared: node {address} does not see what the "
            "driver writes there; give --storage a path on a shared file system or an s3:// URI"
        )
    differing = [
        f"{k} {theirs.get(k)} (here {v})" for k, v in versions().items() if theirs.get(k) != v
    ]
    if differing:
        raise UserError(
            f"node {address} has other versions: {', '.join(differing)}; install the same versions"
        )


def _probe_on(node: str, storage: str, path: str) -> Any:
    pinned = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    return ray.remote(probe).options(scheduling_strategy=pinned, num_cpus=0).remote(storage, path)


def _check_memory(max_concurrent: int) -> None:
    free, needed = ray.available_resources().get("memory", 0.0), MEMORY_PER_TRIAL * max_concurrent
    if free < needed:
        raise UserError(
            f"{max_concurrent} concurrent trials need about {needed / 1e9:.1f} GB of memory, and "
            f"{free / 1e9:.1f} GB are free; lower --concurrency"
        )
