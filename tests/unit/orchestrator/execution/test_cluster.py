"""Which Ray a sweep runs on."""

import os

import pytest
import ray

from orchestrator.execution import cluster
from orchestrator.execution.cluster import start_ray
from tardis_core.errors import UserError


@pytest.fixture
def init(monkeypatch):
    """What `ray.init` is called with, instead of calling it."""
    calls = {}
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **arguments: calls.update(arguments))
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 2.0}}])
    monkeypatch.setattr(cluster, "check_reachable", lambda address: calls.update(reached=address))
    monkeypatch.setattr(cluster, "ensure_private_token", lambda: calls.update(token=True))
    return calls


def test_one_of_its_own_even_if_a_cluster_runs_on_this_machine(init, tmp_path):
    assert start_ray(None, tmp_path / "ray.log") == [{"CPU": 2.0}]
    assert init["address"] == "local"
    assert init["token"]


def test_the_cluster_that_is_named(init, tmp_path, monkeypatch):
    start_ray("head:6379", tmp_path / "ray.log")
    assert init["address"] == init["reached"] == "head:6379"
    monkeypatch.setenv("RAY_ADDRESS", "other:6379")
    start_ray(None, tmp_path / "ray.log")
    assert init["address"] == "other:6379"


@pytest.mark.parametrize(("address", "failures"), [("head:6379", 3), (None, 60)])
def test_only_a_cluster_takes_a_node_without_an_answer_for_dead(
    init, tmp_path, monkeypatch, address, failures
):
    monkeypatch.setattr(os, "environ", {"HOME": str(tmp_path)})
    start_ray(address, tmp_path / "ray.log")
    name = "RAY_health_check_failure_threshold"
    assert int(os.environ[name]) == failures


def test_a_ray_that_does_not_start_is_reported_in_one_line(init, tmp_path, monkeypatch):
    def fail(**arguments):
        raise Exception("The current node timed out\nduring startup.")

    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(UserError, match=r"started on this machine: The .* out during startup\.$"):
        start_ray(None, tmp_path / "ray.log")
