"""Runs commands one after the other in one process, so that they share imports and one Ray.

Each line of standard input is a JSON list: folder, module of the command, its arguments. Each line
of standard output is the exit code of one command, whose own output goes to `output.txt`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any


class CommandServer:
    """The process, from the side of a test."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, folder: Path, command: str, *arguments: str) -> int:
        """Run a command in a folder; returns its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), command, arguments]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def running() -> Iterator[CommandServer]:
    """Start the process, and end it with the context."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.command_server"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield CommandServer(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


def _run(folder: str, command: str, arguments: list[str]) -> Any:
    os.chdir(folder)
    with open("output.txt", "a") as output, redirect_stdout(output), redirect_stderr(output):
        return import_module(command).main(arguments)


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not be taken for an answer
    for line in sys.stdin:
        print(_run(*json.loads(line)), file=answers, flush=True)
