"""Workers import what a trial needs while the driver still prepares the sweep."""

import importlib

import ray

from orchestrator.planning.plan import SweepPlan

TRIAL = "orchestrator.execution.trial"  # with PyTorch, which takes seconds


def start(plan: SweepPlan, count: int) -> None:
    """Let idle workers import a trial; Ray then gives them to the first trials.

    Not with GPUs: a worker must not look at them before it is told which ones are its own.
    """
    if not plan.gpus_per_trial:
        for _ in range(count):
            ray.remote(importlib.import_module).options(num_cpus=0).remote(TRIAL)
