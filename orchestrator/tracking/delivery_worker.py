"""Delivery in a process of its own, so that MLflow's client does not slow down Ray's loop.

The client computes for about 20 ms per trial, during which a thread would block the driver. The
processes exchange lines of JSON: first the arguments of `Delivery` (not on the command line, where
everyone could read the password of a store), then one stretch of the log at a time.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from orchestrator.common.library_logs import redirect_library_logs
from orchestrator.tracking.delivery import Delivered, Delivery, Store
from orchestrator.tracking.mlflow_store import reason

LIBRARIES_LOG = "mlflow.log"
NICENESS = 5  # starting and training trials come first
END_SECONDS = 5


class DeliveryFailed(Exception):
    """What went wrong in the process, or that it has ended."""


class DeliveryProcess:
    """`Delivery` in another process, started at once because it takes seconds to be ready.

    A process that died is replaced when it is next needed.
    """

    def __init__(self, folder: Path, store: Store, sweep_id: str) -> None:
        self._arguments = {"folder": str(folder.absolute()), "store": store, "sweep_id": sweep_id}
        self._process: subprocess.Popen[str] | None = self._start()

    def send(self, start: int, end: int) -> Delivered:
        """As `Delivery.send`; raises DeliveryFailed."""
        if self._process is None:
            self._process = self._start()
        try:
            _send(self._process.stdin, [start, end])
            answer = json.loads(self._process.stdout.readline())  # type: ignore[union-attr]
        except (OSError, ValueError) as error:
            self.close()
            raise DeliveryFailed("the process that sends to MLflow has ended") from error
        if "error" in answer:
            raise DeliveryFailed(answer["error"])
        return Delivered(**answer)

    def close(self) -> None:
        """End the process; what it is delivering has to be sent again."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]  # which ends it
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()  # type: ignore[union-attr]

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator.tracking.delivery_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            # Ctrl-C is for the driver, which has still to record the end. No session of its own:
            # Linux divides the processor between sessions, and niceness counts within one.
            process_group=0,
        )
        os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)  # before it imports MLflow
        _send(process.stdin, self._arguments)
        return process


def _send(channel: Any, message: Any) -> None:
    channel.write(json.dumps(message) + "\n")
    channel.flush()


def _receive() -> Iterator[Any]:
    """The driver's messages; the process ends with the driver, whatever it is waiting for."""
    messages: SimpleQueue[Any] = SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            messages.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        yield messages.get()


def main() -> None:
    """The process of `DeliveryProcess`."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not be taken for an answer
    messages = _receive()
    arguments = next(messages)
    folder = Path(arguments["folder"])
    redirect_library_logs(folder / LIBRARIES_LOG)
    delivery = Delivery(folder, Store(*arguments["store"]), arguments["sweep_id"])
    for start, end in messages:
        try:
            answer: dict[str, Any] = delivery.send(start, end)._asdict()
        except Exception as error:
            answer = {"error": reason(error)}
        _send(answers, answer)


if __name__ == "__main__":
    main()
