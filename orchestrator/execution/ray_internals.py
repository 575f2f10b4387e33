"""The private parts of Ray that a sweep relies on, each in one place.

tests/unit/orchestrator/execution/test_ray_internals.py says what is relied on: run it before
raising the version of Ray in pyproject.toml.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ray
from ray._private.authentication.authentication_token_setup import (
    maybe_enable_token_auth_if_token_available,
)
from ray._private.node import Node
from ray._private.ray_constants import (
    AGENT_PROCESS_TYPE_DASHBOARD_AGENT,
    AGENT_PROCESS_TYPE_RUNTIME_ENV_AGENT,
    PROCESS_TYPE_GCS_SERVER,
    PROCESS_TYPE_RAYLET,
)
from ray._private.utils import psutil  # the copy that Ray brings along
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, MedianStoppingRule

AGENT = "agent"
AGENT_WORDS = (
    "/ray/dashboard/agent.py",
    "/ray/_private/runtime_env/agent/main.py",
    AGENT_PROCESS_TYPE_DASHBOARD_AGENT,
    AGENT_PROCESS_TYPE_RUNTIME_ENV_AGENT,
)
AGENTS = (
    2  # of a raylet: that of the dashboard, which always runs, and that of runtime environments
)
Rung = tuple[float, dict[str, float]]  # a milestone, and the value of each trial that reached it


def contact_head(address: str) -> None:
    """Talk to the head of a cluster with our token, if there is one.

    Raises:
        ray.exceptions.AuthenticationError: within seconds, where `ray.init` would retry for minutes
    """
    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    GcsClient(address=address)


@contextmanager
def starting_few_processes() -> Iterator[None]:
    """A context in which `ray.init` starts no process that a sweep on one machine does not use.

    The autoscaler, the dashboard (which Ray starts for its usage statistics alone even if it is
    told to include none, and waits for) and the log monitor: 6 s of 10 on two cores.
    """
    originals = {name: getattr(Node, name) for name in UNUSED_STARTS}
    try:
        for name, instead in UNUSED_STARTS.items():
            setattr(Node, name, instead)
        yield
    finally:
        for name, original in originals.items():
            setattr(Node, name, original)


def _start_nothing(node: Node) -> None:
    """In place of a method that starts a process."""


def _start_no_dashboard(node: Node, **options: Any) -> None:
    node._webui_url = None


UNUSED_STARTS = {
    "start_monitor": _start_nothing,
    "start_log_monitor": _start_nothing,
    "start_api_server": _start_no_dashboard,
}


def own_services() -> dict[int, str]:
    """The GCS, the raylet and its agents, by process id, if this process has started them.

    Without one of them nothing continues, and Ray itself would wait forever.
    """
    started = {
        each.process.pid: name
        for name in (PROCESS_TYPE_GCS_SERVER, PROCESS_TYPE_RAYLET)
        for each in _processes().get(name, [])
    }
    raylets = [pid for pid, name in started.items() if name == PROCESS_TYPE_RAYLET]
    return started | {agent: AGENT for raylet in raylets for agent in _agents(raylet)}


def _agents(raylet: int) -> Iterator[int]:
    """The agents among the children of a raylet; once they have started, they rename themselves."""
    with suppress(psutil.Error):
        for child in psutil.Process(raylet).children():
            with suppress(psutil.Error):
                if any(word.endswith(AGENT_WORDS) for word in child.cmdline()):
                    yield child.pid


def lives(pid: int) -> bool:
    """Whether a process has not ended; one that waits to be collected has."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill_services() -> None:
    """Kill what is left of a Ray that this process has started.

    Its workers, too: those that their raylet has just asked to end would wait for it forever.
    """
    services = [each.process for kind in _processes().values() for each in kind]
    workers = [worker for each in services for worker in _descendants(each.pid)]
    for process in [*services, *workers]:
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            process.kill()


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _processes() -> dict[str, list[Any]]:
    """The processes of a Ray that this process has started, by their kind."""
    node = ray._private.worker._global_node
    return {} if node is None else dict(node.all_processes)


def rungs(scheduler: ASHAScheduler, bracket: int) -> list[Rung]:
    """The rungs of a bracket of ASHA, themselves and not a copy: what is added to them counts."""
    return scheduler._brackets[bracket]._rungs


def assign_bracket(scheduler: ASHAScheduler, trial_id: str, bracket: int) -> None:
    """Put a trial into a bracket of our choice; Ray would draw one from NumPy's global state."""
    scheduler._trial_info[trial_id] = scheduler._brackets[bracket]


def remember(rule: MedianStoppingRule, trial: Any, results: list[dict[str, Any]]) -> None:
    """Make results of a trial known to the median rule."""
    rule._results[trial].extend(results)


def remembered(rule: MedianStoppingRule, trial: Any) -> list[dict[str, Any]]:
    """The results of a trial that the median rule knows."""
    return rule._results.get(trial, [])


def stop_trial(shown: Any, trial: Trial) -> None:
    """Stop a trial in the middle of its training, together with its process.

    A process that Ray kept for the next trial would continue the old training meanwhile.

    Args:
        shown: the controller of Tune as schedulers see it.
    """
    controller = shown._tune_controller
    reuse, controller._reuse_actors = controller._reuse_actors, False
    try:
        controller.stop_trial(trial)
    finally:
        controller._reuse_actors = reuse


def error_of(trial: Trial) -> str:
    """What Ray has noted of the failures of a trial; it reaches the storage only at the end."""
    noted = trial.error_file
    if noted and os.path.isfile(noted):
        return Path(noted).read_text()
    return str(trial.get_error() or "")


def may_retry(trial: Trial) -> bool:
    """Whether Ray's limit of failures lets a trial that failed run once more."""
    return bool(trial.should_recover())


def free_statistics(trial: Trial) -> None:
    """Drop the averages that Ray keeps of every metric of a trial: 17 kB that nobody reads."""
    trial.metric_analysis.clear()
    trial.metric_n_steps.clear()
