"""The Ray of this machine dies: it is noticed, and the command starts again or says how to."""

import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from orchestrator.execution import ray_death, ray_internals, ray_watch
from orchestrator.tracking.event_log import open_log
from orchestrator.tracking.events import SweepEnded, SweepStarted, TrialEnded, TrialStarted
from tardis_core.stopping import NUMBERS, stop_signals
from tests.support.mlflow_stores import wait_for
from tests.support.sweep_logs import comparison_plan, make_plan

RESTART = ("orchestrator.sweep", "--resume", "s")


@pytest.fixture
def services(monkeypatch):
    """Two processes that stand for those of Ray."""
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    processes = {name: subprocess.Popen(sleep) for name in ("gcs_server", "raylet")}
    listed = {name: [SimpleNamespace(process=each)] for name, each in processes.items()}
    node = SimpleNamespace(all_processes=listed)
    monkeypatch.setattr("ray._private.worker._global_node", node)
    monkeypatch.setattr(ray_watch.ray, "nodes", lambda: [{"Alive": True}])
    yield processes
    for each in processes.values():
        each.kill()
        each.wait()


@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_dead_service_is_noticed(services, name):
    reasons, noticed = [], threading.Event()

    def on_death(reason):
        reasons.append(reason)
        noticed.set()

    with ray_watch.watching(on_death):
        assert not noticed.wait(0.3)
        services[name].kill()
        assert noticed.wait(30)
    assert reasons == [f"its {name} ended"]


@pytest.mark.parametrize("title", ["ray::DashboardAgent", "ray::RuntimeEnvAgent"])
def test_a_dead_agent_is_noticed(services, title):
    """Its raylet follows it, and Ray would end the driver before the raylet has ended."""
    program = f"""import subprocess, time
agent = subprocess.Popen([{title!r}, '60'], executable='/bin/sleep')
time.sleep(60)
"""
    raylet = subprocess.Popen([sys.executable, "-c", program])
    node = ray_internals.ray._private.worker._global_node
    node.all_processes["raylet"] = [SimpleNamespace(process=raylet)]
    reasons, noticed = [], threading.Event()

    def on_death(reason):
        reasons.append(reason)
        noticed.set()

    with ray_watch.watching_start(on_death):
        while not (agents := [p for p, n in ray_internals.own_services().items() if n == "agent"]):
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(agents[0], signal.SIGKILL)
        assert noticed.wait(30)
    raylet.kill()
    raylet.wait()
    assert reasons == ["its agent ended"]


def test_a_node_that_was_declared_dead_is_noticed(services, monkeypatch):
    noticed = threading.Event()
    monkeypatch.setattr(ray_watch.ray, "nodes", lambda: [{"Alive": False}])
    with ray_watch.watching(lambda reason: noticed.set()):
        assert noticed.wait(30)


def test_what_is_left_of_ray_is_killed(services):
    ray_internals.kill_services()
    assert [each.wait(30) for each in services.values()] == [-signal.SIGKILL] * 2


def test_the_workers_of_a_raylet_are_killed_with_it(services):
    """A raylet that ends of itself asks them to end, and if it dies then, they wait for ever."""
    program = """import subprocess, sys
worker = subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL, start_new_session=True)
print(worker.pid, flush=True)
worker.wait()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as raylet:
        node = ray_internals.ray._private.worker._global_node
        node.all_processes["raylet"] = [SimpleNamespace(process=raylet)]
        worker = int(raylet.stdout.readline())
        assert ray_internals.lives(worker)
        ray_internals.kill_services()
    wait_for(lambda: not ray_internals.lives(worker))


def test_a_ray_that_others_started_is_not_watched(monkeypatch):
    monkeypatch.setattr("ray._private.worker._global_node", None)
    assert ray_internals.own_services() == {}


@pytest.fixture
def become(tmp_path, monkeypatch):
    """The commands that the process would have been replaced by."""
    monkeypatch.chdir(tmp_path)
    commands = []
    monkeypatch.setattr(ray_death.ray_internals, "kill_services", lambda: None)
    monkeypatch.setattr(
        ray_death.os,
        "execve",
        lambda program, words, environment: commands.append(
            (words[2:], environment[ray_death.COUNT])
        ),
    )
    return commands


@pytest.mark.parametrize(
    ("count", "number", "command"),
    [
        ("0", None, list(RESTART)),
        ("1", None, list(RESTART)),
        ("2", None, [ray_death.MODULE, "s", "2", "error: the Ray of this machine has died (x)"]),
        ("0", signal.SIGTERM, [ray_death.MODULE, "s", "143", "stopped"]),
    ],
)
def test_the_command_starts_again_twice_and_then_says_how_to(
    become, monkeypatch, count, number, command
):
    monkeypatch.setenv(ray_death.COUNT, count)
    monkeypatch.setattr(type(stop_signals), "number", number)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    ray_death.handle(make_plan(), RESTART, "x")
    inherited = signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    assert become[0][0] == command
    # What records the end is not ended by a second signal; what starts again can be stopped.
    assert set(NUMBERS) <= inherited if command[0] == ray_death.MODULE else inherited == blocked
    assert int(become[0][1]) == int(count) + (command[0] == RESTART[0])


def test_the_end_is_recorded_and_the_way_on_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    plan = comparison_plan("c")
    plan.save()
    log = open_log(plan.folder)
    log.append(SweepStarted("c"), TrialStarted(0))
    log.close()
    sent = SimpleNamespace(start=lambda: None, close=lambda seconds: 0)
    monkeypatch.setattr(ray_death, "Tracker", lambda *_: sent)
    assert ray_death.main("c", "143", "stopped") == 143
    expected = (
        "stopped; nothing is lost, continue with: python -m orchestrator.compare --resume c\n"
    )
    assert capsys.readouterr().err == expected
    log = open_log(plan.folder)
    ended = [event for event, _ in log.read(0) if isinstance(event, TrialEnded | SweepEnded)]
    assert [event.status for event in ended] == ["KILLED", "KILLED"]
    log.close()
