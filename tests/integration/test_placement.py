"""Trials on the GPUs of several nodes: no trial waits while a GPU is free, nor uses another's."""

import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import ray
import torch
from ray import tune
from ray.cluster_utils import Cluster as RayCluster

from orchestrator import doctor, sweep_session
from orchestrator.execution import gpu_probe, ray_internals
from orchestrator.execution.cluster import RAY_SETTINGS, nodes, resources_of
from orchestrator.planning.options import SearchOptions
from orchestrator.planning.placement import AUTO, Cluster, Footprint, slots
from orchestrator.planning.plan import SweepPlan
from orchestrator.planning.planner import plan_from
from tardis_core.errors import UserError

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers have no test modules
pytestmark = pytest.mark.slow
PATIENCE = 120  # seconds, on a machine that may be busy with something else
NODES = (  # logical: for Ray alone
    {"num_cpus": 2, "num_gpus": 2},
    {"num_cpus": 1, "num_gpus": 1},  # fewer CPUs than trials that share its GPU
    {"num_cpus": 2, "num_gpus": 0},
)
GPUS = 3
TWO_PER_GPU = Footprint(memory=8e9, total_memory=20e9, step_seconds=0.05)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    for name, value in RAY_SETTINGS.items():
        patch.setenv(name, value)
    cluster = RayCluster()
    with ray_internals.starting_few_processes():
        for node in NODES:
            cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False, include_dashboard=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    patch.undo()


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def occupy(config: dict, folder: str, max_concurrent: int) -> None:
    """A trial that says where it is, and waits until as many as there is room for have begun."""
    context = ray.get_runtime_context()
    place = {
        "node": context.get_node_id(),
        "given": ",".join(context.get_accelerator_ids()["GPU"]),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }
    (Path(folder) / str(config["number"])).write_text(json.dumps(place))
    deadline = time.monotonic() + PATIENCE
    while len(list(Path(folder).iterdir())) < max_concurrent:
        assert time.monotonic() < deadline, "a trial waits while there is room for it"
        time.sleep(0.05)


def plan_of(gpus: float | str, **more) -> SweepPlan:
    options = SearchOptions(task="copy", scale="smoke", gpus_per_trial=gpus, **more)
    return plan_from(options, Cluster(nodes, lambda plan: TWO_PER_GPU))


def places_of_trials(plan: SweepPlan, folder: Path, waiting: int = 0) -> list[dict]:
    """Run as many trials as there is room for, and some that wait; returns where each was."""
    max_concurrent, begun = slots(plan, nodes()), folder / "begun"
    begun.mkdir()
    results = tune.Tuner(
        tune.with_resources(
            tune.with_parameters(occupy, folder=str(begun), max_concurrent=max_concurrent),
            resources_of(plan),
        ),
        param_space={"number": tune.grid_search(list(range(max_concurrent + waiting)))},
        tune_config=tune.TuneConfig(max_concurrent_trials=max_concurrent, reuse_actors=True),
        run_config=tune.RunConfig(storage_path=str(folder / "ray"), verbose=0),
    ).fit()
    assert results.num_errors == 0
    places = [json.loads(path.read_text()) for path in begun.iterdir()]
    assert len(places) == max_concurrent + waiting
    return places


def trials_per_gpu(places: list[dict]) -> list[int]:
    """How many trials each GPU had, which each saw no other."""
    assert all(place["visible"] == place["given"] for place in places)
    return sorted(Counter((place["node"], place["given"]) for place in places).values())


def test_every_gpu_is_full_while_trials_wait(cluster, tmp_path):
    plan = plan_of(AUTO)
    assert slots(plan, nodes()) == GPUS * 2
    assert trials_per_gpu(places_of_trials(plan, tmp_path, waiting=1)) == [2, 2, 3]


def test_trials_without_gpus_see_none_and_are_on_all_nodes(cluster, tmp_path):
    places = places_of_trials(plan_of(0.0, cpus_per_trial=2), tmp_path)
    assert {(place["given"], place["visible"]) for place in places} == {("", "")}
    assert len({place["node"] for place in places}) == 2  # those with two CPUs


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs GPUs that do not work")
@pytest.mark.parametrize(
    "use",
    [
        gpu_probe.check_gpus,
        lambda: sweep_session.plan_for(SearchOptions(task="copy", scale="smoke")),
    ],
)
def test_a_gpu_that_does_not_work_is_one_sentence_with_its_node(cluster, use):
    with pytest.raises(UserError) as error:
        use()
    message = str(error.value)
    assert "\n" not in message
    address = ray.nodes()[0]["NodeManagerAddress"]
    assert message.startswith(
        f"the GPUs of node {address} cannot train (RuntimeError: PyTorch sees"
    )


def test_the_node_with_the_least_room_decides(cluster, monkeypatch):
    small = next(node["NodeID"] for node in ray.nodes() if node["Resources"].get("GPU") == 1)

    def measure(configs, seeds, data):
        here = ray.get_runtime_context().get_node_id()
        return Footprint(1e9 * seeds, 8e9 if here == small else 80e9, 0.01)

    monkeypatch.setattr(gpu_probe, "measure", measure)
    assert gpu_probe.footprint(plan_of(0.0, seeds_per_trial=3)) == Footprint(3e9, 8e9, 0.01)
    plan = sweep_session.plan_for(SearchOptions(task="copy", seeds_per_trial=3))
    assert (plan.gpus_per_trial, plan.cpus_per_trial, plan.scale) == (0.5, 0.5, "paper")
    assert slots(plan, nodes()) == 2 * GPUS


@ray.remote(num_cpus=0, num_gpus=1)
class Occupant:
    """Somebody else's work on a GPU."""

    def ready(self) -> None:
        return None


def test_busy_gpus_are_not_waited_for(cluster, monkeypatch):
    occupants = [Occupant.remote() for _ in range(GPUS)]
    ray.get([each.ready.remote() for each in occupants])
    monkeypatch.setattr(gpu_probe, "MEASURE_PATIENCE", 1)
    monkeypatch.setattr(gpu_probe, "CHECK_PATIENCE", 1)
    try:
        assert gpu_probe.footprint(plan_of(0.0)) is None
        gpu_probe.check_gpus()  # busy GPUs work
    finally:
        for each in occupants:
            ray.kill(each)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs GPUs that do not work")
def test_the_doctor_checks_the_kernels_on_every_node_with_gpus(cluster, capsys):
    assert doctor.main(["--gpu"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == sum(node["num_gpus"] > 0 for node in NODES)
    assert all("cannot train" in line for line in lines)


def test_trials_that_wait_start_on_a_gpu_that_joins(cluster, tmp_path):
    assert slots(plan_of(1), nodes()) == GPUS
    plan = plan_of(1.0, autoscale=True, concurrency=GPUS + 1)
    with ThreadPoolExecutor() as pool:
        running = pool.submit(places_of_trials, plan, tmp_path)
        while len(list(tmp_path.glob("begun/*"))) < GPUS and not running.done():
            time.sleep(0.05)
        joined = cluster.add_node(num_cpus=1, num_gpus=1)  # Ray wants the main thread for this
        places = running.result()
    cluster.remove_node(joined)
    assert trials_per_gpu(places) == [1] * (GPUS + 1)
