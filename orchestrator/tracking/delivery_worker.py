"""The delivery in a process of its own: MLflow's client and Ray's loop share no interpreter.

The client computes about 20 ms a trial, in which a thread would hold up the driver. The two talk in
lines of JSON: first what `Delivery` is made of (not as arguments, where everyone could read the
password of a store), then a stretch of the log at a time.
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
POLITENESS = 5  # trainings come first
END_SECONDS = 5


class DeliveryFailed(Exception):
    """What the process said went wrong, or that it is gone."""


class DeliveryProcess:
    """Like `Delivery`, elsewhere; begun at once, since it takes seconds to be ready.

    A process that died is replaced when it is next needed.
    """

    def __init__(self, folder: Path, store: Store, sweep_id: str) -> None:
        self._about = {"folder": str(folder.absolute()), "store": store, "sweep_id": sweep_id}
        self._process: subprocess.Popen[str] | None = self._start()

    def send(self, start: int, end: int) -> Delivered:
        """As `Delivery.send`; raises DeliveryFailed."""
        if self._process is None:
            self._process = self._start()
        try:
            _tell(self._process.stdin, [start, end])
            answer = json.loads(self._process.stdout.readline())  # type: ignore[union-attr]
        except (OSError, ValueError) as error:
            self.close()
            raise DeliveryFailed("the process that sends to MLflow has ended") from error
        if "error" in answer:
            raise DeliveryFailed(answer["error"])
        return Delivered(**answer)

    def close(self) -> None:
        """End the process; what it is in the middle of is to be sent again."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]  # at which it ends
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
            start_new_session=True,  # Ctrl-C is for the driver, which has still to record the end
        )
        _tell(process.stdin, self._about)
        return process


def _tell(channel: Any, message: Any) -> None:
    channel.write(json.dumps(message) + "\n")
    channel.flush()


def _hear() -> Iterator[Any]:
    """What the driver says; the process does not outlive it, whatever it is waiting for."""
    heard: SimpleQueue[Any] = SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            heard.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        yield heard.get()


def main() -> None:
    """The other end of `DeliveryProcess`."""
    os.nice(POLITENESS)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    messages = _hear()
    about = next(messages)
    folder = Path(about["folder"])
    redirect_library_logs(folder / LIBRARIES_LOG)
    delivery = Delivery(folder, Store(*about["store"]), about["sweep_id"])
    for start, end in messages:
        try:
            answer: dict[str, Any] = delivery.send(start, end)._asdict()
        except Exception as error:
            answer = {"error": reason(error)}
        _tell(answers, answer)


if __name__ == "__main__":
    main()
