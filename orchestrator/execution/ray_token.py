"""The token that lets one into a Ray cluster: kept to its owner, and asked for in plain words."""

import os
import secrets
import socket
from pathlib import Path

from ray._private.authentication.authentication_token_setup import (
    maybe_enable_token_auth_if_token_available,
)
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.exceptions import AuthenticationError

from tardis_core.errors import UserError

KNOCK_SECONDS = 5
HOW = (
    "put the cluster's token into ~/.ray/auth_token, or name its file with RAY_AUTH_TOKEN_PATH, "
    "and set RAY_AUTH_MODE=token"
)


def token_file() -> Path:
    """Where Ray looks for a token if it is told nothing else."""
    return Path.home() / ".ray" / "auth_token"


def ensure_private_token() -> None:
    """Make the token of this machine, which Ray would write for all to read."""
    path = token_file()
    if path.exists():
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        return
    path.parent.mkdir(mode=0o700, exist_ok=True)
    # Open to nobody else from the first moment on; another sweep may be faster.
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with open(handle, "w") as file:
        file.write(secrets.token_hex(32))


def check_reachable(address: str) -> None:
    """Raise `UserError` unless the cluster at HOST:PORT is there and takes our token.

    Ray itself would try for minutes, and then say that it could not connect.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), KNOCK_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UserError(
            f"--address must be HOST:PORT of a Ray cluster that is running, and {address} is not "
            f"({error}); start it, or leave --address out"
        ) from error
    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    try:
        GcsClient(address=address)
    except AuthenticationError as error:
        ours = "is another one" if _has_token() else "is missing"
        raise UserError(
            f"the Ray cluster at {address} asks for a token, and ours {ours}; {HOW}"
        ) from error


def _has_token() -> bool:
    named = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    return bool(named) or token_file().exists()
