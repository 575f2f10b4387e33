"""Getting in where one must not: a Ray cluster with a token, an MLflow server with a login."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from orchestrator.execution.cluster import RAY_SETTINGS, check_reachable
from orchestrator.tracking.mlflow_store import prepare_store
from tardis_core.errors import UserError
from tests.support import command_server
from tests.support.command_server import CommandServer
from tests.support.mlflow_stores import EXPERIMENT, PATIENCE, fresh_sqlite, wait_for
from tests.support.servers import Server, free_port

SWEEP = "orchestrator.sweep_command"
TOKEN, OTHER = "a" * 64, "b" * 64
PASSWORD = "correct horse battery"


def alone(home: Path, **variables: str) -> dict[str, str]:
    """An environment without a token, in a home without one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    return {**kept, "HOME": str(home), **variables}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray cluster that asks for `TOKEN`."""
    home, port = tmp_path_factory.mktemp("head"), free_port()
    ray = Path(sys.executable).with_name("ray")
    # A folder of its own, or every `ray.init` on this machine would find the cluster; a short name,
    # because that of a socket has at most 107 characters.
    own = tempfile.mkdtemp(prefix="ray")
    start = f"start --head --block --port {port} --num-cpus 1 --temp-dir {own}".split()
    with open(home / "log", "wb") as log:
        head = subprocess.Popen(
            [ray, *start, "--disable-usage-stats", "--include-dashboard=false"],
            env=alone(home, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN, **RAY_SETTINGS),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_for(lambda: b"Ray runtime started" in (home / "log").read_bytes())
        yield f"127.0.0.1:{port}"
    finally:
        os.killpg(head.pid, signal.SIGKILL)
        head.wait(60)
        shutil.rmtree(own, ignore_errors=True)


@pytest.fixture(scope="module")
def commands() -> Iterator[CommandServer]:
    """Commands for which everything but Ray is imported, which reads its variables at import."""
    with command_server.running("orchestrator.comparison.page") as server:
        assert server.imported("ray", "torch", "mlflow") == ["torch", "mlflow"]
        yield server


def main(arguments: Sequence[str]) -> int:
    """A command that only knocks at a cluster."""
    check_reachable(arguments[0])
    return 0


def test_no_token_and_a_wrong_token_are_reported_in_one_line(
    cluster: str, commands: CommandServer, tmp_path: Path
) -> None:
    tokens = {"none": {}, "wrong": {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": OTHER}}
    arguments = ["copy", "--smoke", "--trials", "1", "--address", cluster]
    started = {}
    for name, variables in tokens.items():
        folder = tmp_path / name
        folder.mkdir()
        environment = alone(folder, **variables)
        started[name] = commands.start(folder, SWEEP, *arguments, environment=environment)
    for name, expected in (("none", "ours is missing"), ("wrong", "ours does not match")):
        code = started[name].wait(PATIENCE)
        text = (tmp_path / name / "errors.txt").read_text()
        lines = [line for line in text.splitlines() if line.startswith("error: ")]
        assert code == 2, text
        assert len(lines) == 1
        assert f"asks for a token, and {expected}" in lines[0]
        assert TOKEN not in text
        assert OTHER not in text
    assert not list(tmp_path.glob("*/sweeps/*"))
    assert not list(tmp_path.glob("*/mlflow.db"))  # nothing half-written


def test_the_right_token_gets_in(cluster: str, commands: CommandServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    environment = alone(tmp_path, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token))
    knocking = commands.start(tmp_path, __name__, cluster, environment=environment)
    assert knocking.wait(PATIENCE) == 0, (tmp_path / "errors.txt").read_text()


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("locked")
    (folder / "auth.ini").write_text(
        f"[mlflow]\ndefault_permission = READ\ndatabase_uri = sqlite:///{folder}/auth.db\n"
        "admin_username = admin\n"
    )
    server = Server(
        fresh_sqlite(folder, tmp_path_factory),
        folder,
        ["--app-name", "basic-auth"],
        {
            "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
            "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORD,
            "MLFLOW_FLASK_SERVER_SECRET_KEY": "x" * 32,
        },
    )
    with server.running():
        yield server


def test_no_login_and_a_wrong_one_are_refused(
    locked: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    asked = "asks for a login; set MLFLOW_TRACKING_USERNAME and"
    with pytest.raises(UserError, match=asked):
        prepare_store(locked.uri, EXPERIMENT)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "password1234")
    with pytest.raises(UserError, match=asked) as refused:
        prepare_store(locked.uri, EXPERIMENT)
    assert "password1234" not in str(refused.value)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    assert prepare_store(locked.uri, EXPERIMENT)
