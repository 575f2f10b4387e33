"""GPUs tried before a sweep: do they work, and how much of one does a trial take?"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ray
import torch
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.planning import sweep_data
from orchestrator.planning.configs import first_configs
from orchestrator.planning.placement import Footprint
from orchestrator.planning.plan import SweepPlan
from tardis_core.config import Config
from tardis_core.errors import UserError
from tardis_core.text import error_line
from tardis_core.training.loop import Trainer

MEASURE_PATIENCE = 120  # seconds for an answer; a node that is busy longer is left alone
CHECK_PATIENCE = 60
UPDATES = 3  # the first one allocates and compiles
CONTEXT_BYTES = 0.6e9  # what CUDA itself takes of a GPU for every process


def footprint(plan: SweepPlan) -> Footprint | None:
    """What a trial takes on the GPU node with the least room; None if all GPUs are busy."""
    data = sweep_data.load(plan).values
    configs, seeds = first_configs(plan), plan.protocol.seeds
    asked = ask_gpu_nodes(measure, lambda _: 1, configs, seeds, ray.put(data))
    answers = _answers(asked, MEASURE_PATIENCE)
    return min(answers, key=lambda each: each.total_memory / each.memory, default=None)


def check_gpus() -> None:
    """Raise `UserError` for the first node whose GPUs do not compute; busy ones do."""
    _answers(ask_gpu_nodes(compute, lambda gpus: gpus), CHECK_PATIENCE)


def compute() -> None:
    """Use every GPU that this process was given."""
    given = len(ray.get_runtime_context().get_accelerator_ids()["GPU"])
    if torch.cuda.device_count() < given:
        raise RuntimeError(f"PyTorch sees {torch.cuda.device_count()} of {given}")
    for number in range(given):
        ones = torch.ones(64, 64, device=torch.device("cuda", number))
        if (ones @ ones).sum().item() != 64**3:
            raise RuntimeError("a product of matrices was wrong")


def measure(configs: Sequence[Config], seeds: int, data: Any) -> Footprint:
    """What the largest of these configurations takes of the GPU of this process."""
    compute()
    return max((_measure(config, seeds, data) for config in configs), key=lambda each: each.memory)


def _measure(config: Config, seeds: int, data: Any) -> Footprint:
    """A few updates of one trial, all of its seeds side by side."""
    total = float(torch.cuda.get_device_properties(0).total_memory)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    try:
        seconds = _train(config, seeds, data)
    except torch.OutOfMemoryError:
        return Footprint(total, total, float("nan"))
    return Footprint(torch.cuda.max_memory_reserved() + CONTEXT_BYTES, total, seconds)


def _train(config: Config, seeds: int, data: Any) -> float:
    """The seconds of the last update."""
    numbers = range(config.seed, config.seed + seeds)
    trainers = [Trainer(replace(config, seed=number), data, "cuda") for number in numbers]
    seconds = 0.0
    for _ in range(UPDATES):
        started = time.perf_counter()
        for trainer in trainers:
            trainer.step()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - started
    return seconds


def ask_gpu_nodes(
    question: Callable[..., Any], gpus: Callable[[float], float], *arguments: Any
) -> dict[Any, str]:
    """Start a task on every node with GPUs; returns the address of the node of each task.

    Args:
        gpus: how many GPUs the question needs on a node with this number of GPUs.
    """
    return {
        _ask(node, question, gpus(node["Resources"]["GPU"]), arguments): node["NodeManagerAddress"]
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("GPU", 0) >= 1
    }


def _answers(asked: dict[Any, str], patience: float) -> list[Any]:
    """The answers that come in time; a node whose GPUs are busy gives none."""
    if not asked:
        return []
    ready, late = ray.wait(list(asked), num_returns=len(asked), timeout=patience)
    for task in late:
        ray.cancel(task, force=True)
    return [_answer(task, asked[task]) for task in ready]


def _ask(
    node: dict[str, Any], question: Callable[..., Any], gpus: float, arguments: Sequence[Any]
) -> Any:
    pinned = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
    task = ray.remote(question).options(
        scheduling_strategy=pinned, num_cpus=0, num_gpus=gpus, max_retries=0
    )
    return task.remote(*arguments)


def _answer(task: Any, address: str) -> Any:
    try:
        return ray.get(task)
    except RayError as error:
        raise UserError(
            f"the GPUs of node {address} cannot train ({error_line(error, last=True)}); repair or "
            "remove them, or train on CPUs with --gpus-per-trial 0"
        ) from error
