"""The Ray cluster of a sweep: where it is, how to get in, and what it has."""

import logging
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import ray
import torch
from ray.exceptions import AuthenticationError

from orchestrator.common.library_logs import redirect_library_logs
from orchestrator.execution import ray_internals
from orchestrator.execution.ray_watch import watching_start
from orchestrator.planning.placement import Resources
from orchestrator.planning.plan import SweepPlan
from tardis_core.cli import EXIT_USER_ERROR
from tardis_core.errors import UserError
from tardis_core.stopping import stop_signals

# Read by Ray when it starts, in this process and in its children.
RAY_SETTINGS = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # the driver handles signals; see tuner.py
    # A task without a GPU sees none: by default it would see all GPUs of its node.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    # A snapshot of the experiment only at its end: none is ever restored, and the more trials
    # there are, the longer one takes.
    "TUNE_GLOBAL_CHECKPOINT_S": "inf",
    # No idle workers at the start: the trials, which are actors, get processes of their own.
    "RAY_prestart_worker_first_driver": "0",
    # Notice a dead node in about ten seconds instead of a minute.
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "3000",
}
# The only node of a local Ray is not dead if a busy machine leaves it without processor time; the
# end of its processes is noticed at once, see `ray_watch`.
LOCAL_SETTINGS = {**RAY_SETTINGS, "RAY_health_check_failure_threshold": "60"}
LOCAL = "local"  # a Ray of our own on this machine
CONNECT_SECONDS = 5
TOKEN_HELP = (
    "put the cluster's token into ~/.ray/auth_token, or name its file with RAY_AUTH_TOKEN_PATH, "
    "and set RAY_AUTH_MODE=token"
)


def address_of(address: str | None) -> str:
    """Where a sweep runs; Ray itself would join whatever cluster runs on this machine."""
    return address or os.environ.get("RAY_ADDRESS") or LOCAL


def place(address: str) -> str:
    """An address in words."""
    return "this machine" if address == LOCAL else address


def reach(address: str | None) -> None:
    """Raise `UserError` unless the requested cluster, if any, lets us in."""
    address = address_of(address)
    if not ray.is_initialized() and address not in (LOCAL, "auto"):
        check_reachable(address)


def check_reachable(address: str) -> None:
    """Raise `UserError` unless the cluster at HOST:PORT is running and accepts our token.

    Ray itself would retry for minutes, and then say that it could not connect.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UserError(
            f"--address must be HOST:PORT of a Ray cluster that is running, and {address} is not "
            f"({error}); start it, or omit --address"
        ) from error
    try:
        ray_internals.contact_head(address)
    except AuthenticationError as error:
        ours = "does not match" if _has_token() else "is missing"
        raise UserError(
            f"the Ray cluster at {address} asks for a token, and ours {ours}; {TOKEN_HELP}"
        ) from error


def token_file() -> Path:
    """Where Ray looks for a token by default."""
    return Path.home() / ".ray" / "auth_token"


def _has_token() -> bool:
    named = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    return bool(named) or token_file().exists()


def ensure_private_token() -> None:
    """Create the token of this machine, which Ray itself would make readable by everyone."""
    path = token_file()
    if path.exists():
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        return
    path.parent.mkdir(mode=0o700, exist_ok=True)
    # Private from the first moment; another sweep may be faster.
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with open(handle, "w") as file:
        file.write(secrets.token_hex(32))


def start_ray(address: str | None, log_file: Path) -> list[Resources]:
    """Connect to a cluster or start one here; returns the resources of each node.

    What Ray logs goes to the file.
    """
    settings = LOCAL_SETTINGS if address_of(address) == LOCAL else RAY_SETTINGS
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    redirect_library_logs(log_file)
    if ray.is_initialized():
        return nodes()
    reach(address)
    address = address_of(address)
    if address == LOCAL:
        ensure_private_token()
    try:
        with ray_internals.starting_few_processes(), watching_start(_died_while_starting):
            ray.init(
                address=address,
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
                logging_level=logging.WARNING,
            )
    except Exception as error:  # a bare one if a node is too slow to start
        reason = " ".join(str(error).split())
        raise UserError(
            f"Ray could not be reached or started on {place(address)}: {reason}"
        ) from error
    stop_signals.listen()  # Ray has installed handlers of its own
    return nodes()


def _died_while_starting(reason: str) -> NoReturn:
    """End the process in a thread, before Ray does it without a word; nothing has begun."""
    asked = stop_signals.number is not None  # the signal has reached Ray, too
    message = f"error: the Ray of this machine died while it started ({reason})"
    print(
        f"{'stopped' if asked else message}; start the command again", file=sys.stderr, flush=True
    )
    ray_internals.kill_services()
    os._exit(stop_signals.exit_code if asked else EXIT_USER_ERROR)


def nodes() -> list[Resources]:
    """The resources of each node of the cluster."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def nodes_at(address: str | None) -> Sequence[Resources]:
    """The resources of each node that a sweep would have; Ray is not started for this machine."""
    if address_of(address) == LOCAL and not ray.is_initialized():
        gpus = torch.cuda.device_count()
        return [{"CPU": float(os.cpu_count() or 1), **({"GPU": float(gpus)} if gpus else {})}]
    return start_ray(address, Path(os.devnull))


def resources_of(plan: SweepPlan) -> dict[str, float]:
    """The resources that a trial requests from Ray."""
    return {"cpu": plan.cpus_per_trial, "gpu": plan.gpus_per_trial}
