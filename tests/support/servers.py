"""Free ports, and a real MLflow server that can be killed and restarted."""

import os
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.support.mlflow_stores import quick_processes

PATIENCE = 300.0  # seconds: the machine may be busy with something else


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_server(
    folder: Path, arguments: Sequence[str], environment: Mapping[str, str]
) -> BaseProcess:
    """Start `mlflow server ARGUMENTS` in a folder, in its own process group."""
    process = quick_processes().Process(target=_serve, args=(folder, arguments, environment))
    process.start()
    return process


def _serve(folder: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    from tests.support import mlflow_server  # the process was forked from one that has it

    mlflow_server.serve(folder, arguments, environment)


def kill_server(process: BaseProcess) -> None:
    """Kill a server and its workers without a chance to clean up."""
    assert process.pid is not None
    os.killpg(process.pid, signal.SIGKILL)
    process.join()


def wait_until_healthy(uri: str, process: BaseProcess) -> None:
    """Wait until the server of a process answers at /health."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(f"{uri}/health", timeout=1).close()
            return
        except OSError:
            assert process.is_alive(), f"the server of {uri} has ended"
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
        self._process: BaseProcess | None = None

    def start(self) -> None:
        """Start it without waiting until it answers."""
        command = ["--workers", "1", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--backend-store-uri", self.store]
        command += ["--artifacts-destination", str(self.folder / "artifacts"), *self._options]
        environment = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", **self._environment}
        self._process = start_server(self.folder, command, {**os.environ, **environment})

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start it, and kill it at the end."""
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
        assert self._process is not None
        assert self._process.pid is not None
        os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill it without a chance to clean up."""
        if self._process is not None:
            kill_server(self._process)
        self._process = None
