"""Free ports, and a real MLflow server that can be killed and restarted."""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support import command_server
from tests.support.command_server import CommandServer, StartedCommand

COMMAND = "tests.support.mlflow_server"
PATIENCE = 300.0  # seconds: the machine may be busy with something else


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_healthy(uri: str, process: "subprocess.Popen | StartedCommand") -> None:
    """Wait until the server of a process answers at /health."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(f"{uri}/health", timeout=1).close()
            return
        except OSError:
            assert process.poll() is None, f"the server of {uri} has ended"
            assert time.monotonic() < deadline, f"no answer from {uri} in {PATIENCE:.0f} s"
            time.sleep(0.2)


class Server:
    """An `mlflow server` that can be killed, suspended and started again."""

    def __init__(
        self,
        store: str,
        folder: Path,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.store, self.folder, self.port = store, folder, free_port()
        self._options, self._environment = options, environment or {}
        self.uri = f"http://127.0.0.1:{self.port}"
        self._commands: CommandServer | None = None
        self._process: StartedCommand | None = None

    def start(self) -> None:
        """Start it without waiting until it answers."""
        assert self._commands is not None
        command = ["--workers", "1", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--backend-store-uri", self.store]
        command += ["--artifacts-destination", str(self.folder / "artifacts"), *self._options]
        environment = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", **self._environment}
        self._process = self._commands.start(
            self.folder, COMMAND, *command, environment={**os.environ, **environment}
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start it, and kill it at the end."""
        with command_server.running(COMMAND) as self._commands:
            self.start()
            try:
                self.wait()
                yield
            finally:
                self.kill()

    def wait(self) -> None:
        """Wait until it answers."""
        assert self._process is not None
        wait_until_healthy(self.uri, self._process)

    def signal(self, number: int) -> None:
        """Send a signal to the server and its workers."""
        if self._process is not None:
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill it without a chance to clean up."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)
        self._process = None
