"""Trials on the GPUs of several nodes: no trial waits while a GPU is free."""

import sys
import time
from pathlib import Path

import pytest
import ray
from ray import tune
from ray.cluster_utils import Cluster

from orchestrator.options import parser, plan_from
from orchestrator.run import RAY_SETTINGS, nodes, resources_of, slots

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers have no test modules
NODES = ({"num_cpus": 4, "num_gpus": 2}, {"num_cpus": 4, "num_gpus": 1})  # logical: for Ray alone


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    for name, value in RAY_SETTINGS.items():
        patch.setenv(name, value)
    made = Cluster()
    for node in NODES:
        made.add_node(**node)
    ray.init(address=made.address, log_to_driver=False, include_dashboard=False)
    yield made
    ray.shutdown()
    made.shutdown()
    patch.undo()


def occupy(config: dict, folder: str) -> None:
    """A trial that says where it is, and takes a second."""
    began = time.time()
    time.sleep(1)
    where = f"{ray.get_runtime_context().get_node_id()} {ray.get_gpu_ids()}"
    (Path(folder) / str(config["number"])).write_text(f"{began} {time.time()} {where}")


@pytest.mark.parametrize(("gpus", "at_once"), [("0.5", 6), ("1", 3)])
def test_every_gpu_is_full_while_trials_wait(cluster, tmp_path, monkeypatch, gpus, at_once):
    monkeypatch.chdir(tmp_path)
    asked = ["copy", "--smoke", "--gpus-per-trial", gpus, "--cpus-per-trial", "0.5"]
    plan = plan_from(parser().parse_args(asked))
    assert slots(plan, nodes()) == at_once
    trials, spans = 2 * at_once, tmp_path / "spans"
    spans.mkdir()
    tune.Tuner(
        tune.with_resources(tune.with_parameters(occupy, folder=str(spans)), resources_of(plan)),
        param_space={"number": tune.grid_search(list(range(trials)))},
        tune_config=tune.TuneConfig(max_concurrent_trials=at_once, reuse_actors=False),
        run_config=tune.RunConfig(storage_path=str(tmp_path / "ray"), verbose=0),
    ).fit()
    rows = [path.read_text().split(maxsplit=2) for path in spans.iterdir()]
    assert len(rows) == trials
    moments = sorted(float(end) - 1e-3 for _, end, _ in rows)
    running = [
        sum(float(began) <= moment < float(end) for began, end, _ in rows) for moment in moments
    ]
    assert max(running) == at_once  # all places were taken at once, and no more than there are
    assert len({where for *_, where in rows}) == 3  # each of the three GPUs
