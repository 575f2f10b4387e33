"""Checks before the first trial: one sentence each, and nothing is left in the storage."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import ray
from ray.exceptions import RayTaskError

from orchestrator.execution import preflight
from orchestrator.execution.node import versions
from tardis_core.errors import UserError
from tests.support.sweep_logs import make_plan


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """A sweep on a cluster of the driver's node and another, which answers what `answer` says."""
    monkeypatch.chdir(tmp_path)
    node = {"Alive": True, "NodeID": "n", "NodeManagerAddress": "10.0.0.2"}
    ours = {"Alive": True, "NodeID": "driver", "NodeManagerAddress": "10.0.0.1"}
    monkeypatch.setattr(ray, "nodes", lambda: [ours, node])
    context = SimpleNamespace(get_node_id=lambda: "driver")
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    monkeypatch.setattr(ray, "available_resources", lambda: {"memory": 1e9})
    monkeypatch.setattr(preflight, "_probe_on", lambda *_: None)
    answer(monkeypatch, (True, versions()))
    return make_plan()


def answer(monkeypatch, reply):
    def get(asked):
        if isinstance(reply, Exception):
            raise reply
        return [reply] * len(asked)

    monkeypatch.setattr(ray, "get", get)


def refused(plan, at_once=1) -> str:
    with pytest.raises(UserError) as error:
        preflight.check(plan, at_once)
    assert "\n" not in str(error.value)
    assert not list(plan.folder.rglob(".probe-*"))
    return str(error.value)


def test_a_cluster_that_has_all_is_left_alone(plan):
    preflight.check(plan, 1)
    assert not list(plan.folder.rglob(".probe-*"))


def test_too_little_room_or_memory(plan):
    assert "and the cluster has 2 CPUs and 0 GPUs; lower --cpus-per-trial" in refused(plan, 0)
    assert "2 concurrent trials need about 1.4 GB of memory, and 1.0 GB are free" in refused(
        plan, 2
    )


def test_a_node_that_does_not_see_the_storage_or_has_other_versions(plan, monkeypatch):
    answer(monkeypatch, (False, versions()))
    assert "is not shared: node 10.0.0.2 does not see" in refused(plan)
    answer(monkeypatch, (True, {**versions(), "torch": "1.0"}))
    assert "node 10.0.0.2 has other versions: torch 1.0 (here " in refused(plan)


def test_gpus_are_tried_if_trials_use_them(plan, monkeypatch):
    def fail():
        raise UserError("the GPUs of node 10.0.0.2 cannot train")

    monkeypatch.setattr(preflight, "check_gpus", fail)
    preflight.check(plan, 1)
    assert "node 10.0.0.2" in refused(replace(plan, gpus_per_trial=0.5))


def test_a_node_that_does_not_have_the_program(plan, monkeypatch):
    trace = "ray::_probe()\n  File ...\nModuleNotFoundError: No module named 'orchestrator'\n"
    answer(monkeypatch, RayTaskError("_probe", trace, RuntimeError("failed to import")))
    message = refused(plan)
    assert message.startswith("every node must have this program and the storage")
    assert "(ModuleNotFoundError: No module named 'orchestrator')" in message
