"""Ray's own snapshots of a sweep, which nothing is restored from."""

from pathlib import Path

from ray.tune import ExperimentAnalysis
from ray.tune.experiment import Trial

from orchestrator.common import permissions
from orchestrator.execution.checkpoints import experiments


def ended_trials(storage: str) -> set[int]:
    """The trials that have ended in Ray's last snapshots, which can be outdated after a kill."""
    numbers = set()
    for experiment in experiments(storage):
        path = f"{storage.rstrip('/')}/{experiment}"
        if "://" not in path:
            permissions.check_folder(Path(path))  # a snapshot is a pickle
        numbers |= {int(each.config["number"]) for each in _trials(path) if each.is_finished()}
    return numbers


def _trials(path: str) -> list[Trial]:
    try:
        return ExperimentAnalysis(path).trials or []
    except (EOFError, ValueError):
        return []  # the driver was killed while Ray wrote it
