"""Trials on the GPUs of several nodes: no trial waits while a GPU is free."""

import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import ray
from ray import tune
from ray.cluster_utils import Cluster

from orchestrator.execution.cluster import RAY_SETTINGS, nodes, resources_of, slots
from orchestrator.planning.options import SearchOptions
from orchestrator.planning.planner import plan_from

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers have no test modules
pytestmark = pytest.mark.slow
PATIENCE = 120  # seconds, on a machine that may be busy with something else
NODES = ({"num_cpus": 2, "num_gpus": 2}, {"num_cpus": 2, "num_gpus": 1})  # logical: for Ray alone


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    for name, value in RAY_SETTINGS.items():
        patch.setenv(name, value)
    cluster = Cluster()
    for node in NODES:
        cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False, include_dashboard=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    patch.undo()


def occupy(config: dict, folder: str, max_concurrent: int) -> None:
    """A trial that says where it is, and waits until as many as there is room for have begun."""
    where = f"{ray.get_runtime_context().get_node_id()} {ray.get_gpu_ids()}"
    (Path(folder) / str(config["number"])).write_text(where)
    deadline = time.monotonic() + PATIENCE
    while len(list(Path(folder).iterdir())) < max_concurrent:
        assert time.monotonic() < deadline, "a trial waits while a GPU is free"
        time.sleep(0.05)


@pytest.mark.parametrize(("gpus", "max_concurrent"), [(0.5, 6), (1, 3)])
def test_every_gpu_is_full_while_trials_wait(cluster, tmp_path, monkeypatch, gpus, max_concurrent):
    monkeypatch.chdir(tmp_path)
    options = SearchOptions(task="copy", scale="smoke", gpus_per_trial=gpus, cpus_per_trial=0.5)
    plan = plan_from(options)
    assert slots(plan, nodes()) == max_concurrent
    trials, begun = max_concurrent + 1, tmp_path / "begun"  # one more than there is room for
    begun.mkdir()
    results = tune.Tuner(
        tune.with_resources(
            tune.with_parameters(occupy, folder=str(begun), max_concurrent=max_concurrent),
            resources_of(plan),
        ),
        param_space={"number": tune.grid_search(list(range(trials)))},
        tune_config=tune.TuneConfig(max_concurrent_trials=max_concurrent, reuse_actors=False),
        run_config=tune.RunConfig(storage_path=str(tmp_path / "ray"), verbose=0),
    ).fit()
    assert results.num_errors == 0
    places = Counter(path.read_text() for path in begun.iterdir())
    assert places.total() == trials
    assert len(places) == 3  # each of the three GPUs
