"""How the commands that train end."""

import os
import signal

import pytest

from orchestrator import commands, compare_command, sweep_command
from orchestrator.execution import ray_internals

RUNS = {"sweep": sweep_command, "compare": compare_command}


@pytest.fixture
def ends(monkeypatch):
    """What happens to a process with a Ray of its own, instead of its end."""
    ends = []

    def leave(code):
        ends.append(code)
        raise SystemExit(code)

    monkeypatch.setattr(ray_internals, "own_services", lambda: {1: "raylet"})
    monkeypatch.setattr(ray_internals, "kill_services", lambda: ends.append("Ray"))
    monkeypatch.setattr(os, "_exit", leave)
    return ends


@pytest.mark.parametrize("name", RUNS)
def test_after_a_signal_ray_ends_at_once_and_cannot_change_the_exit_code(name, ends, monkeypatch):
    def run(options):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        return 130

    monkeypatch.setattr(RUNS[name], "run", run)
    with pytest.raises(SystemExit):
        getattr(commands, name)(["copy", "--smoke"])
    assert ends == ["Ray", 143]


@pytest.mark.parametrize("name", RUNS)
def test_without_a_signal_ray_ends_as_it_likes(name, ends, monkeypatch):
    monkeypatch.setattr(RUNS[name], "run", lambda options: 1)
    assert getattr(commands, name)(["copy", "--smoke"]) == 1
    assert ends == []


def test_a_cluster_of_others_stays(ends, monkeypatch):
    monkeypatch.setattr(ray_internals, "own_services", dict)
    monkeypatch.setattr(sweep_command, "run", lambda options: signal.raise_signal(signal.SIGHUP))
    assert commands.sweep(["copy", "--smoke"]) == 129
    assert ends == []
