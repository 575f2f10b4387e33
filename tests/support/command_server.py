"""Runs commands in a process that has imported them once, which takes seconds.

A command that is to be stopped is forked off and is a process of its own, as if started from a
shell. A command that runs to its end may run in the server itself: all of these share one Ray.
Forks come first, since a process that has started Ray can no longer be forked.

Each line of standard input is a JSON list: `run`, folder, module of the command, its arguments;
`start`, the same and the variables of its environment; `poll`, process id; or `imported`, names of
modules. Each line of standard output is the answer: a process id, an exit code, or the modules that
are imported. What a command prints goes to `output.txt` in
its folder, or, if it was started, what it prints to standard error to `errors.txt`.
"""

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any


class StartedCommand:
    """A command in a process of its own; `poll` and `wait` are those of `subprocess.Popen`."""

    def __init__(self, server: "CommandServer", pid: int) -> None:
        self.pid, self.returncode, self._server = pid, None, server

    def poll(self) -> int | None:
        """The exit code, negative for a signal, or None while it runs."""
        if self.returncode is None and is_zombie(self.pid):
            self.returncode = self._server.ask("poll", self.pid)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for the end; returns the exit code."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < deadline, f"the command runs after {timeout:.0f} s"
            time.sleep(0.01)
        return code


class CommandServer:
    """The process, from the side of a test."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, *request: Any) -> Any:
        """Send a request; returns the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def run(self, folder: Path, command: str, *arguments: str) -> int:
        """Run a command in a folder; returns its exit code."""
        return int(self.ask("run", str(folder), command, arguments))

    def imported(self, *modules: str) -> list[str]:
        """Which of these modules the commands have imported."""
        return list(self.ask("imported", modules))

    def start(
        self,
        folder: Path,
        command: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
    ) -> StartedCommand:
        """Start a command in a folder, in its own process group."""
        variables = None if environment is None else dict(environment)
        return StartedCommand(self, self.ask("start", str(folder), command, arguments, variables))


@contextmanager
def running(*commands: str, **variables: str) -> Iterator[CommandServer]:
    """Start the server, which imports the modules of the commands; end it with the context.

    Args:
        variables: of its environment, beside those of this process.
    """
    path = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.command_server", *commands],
        env={**os.environ, "PYTHONPATH": path, **variables},
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


def is_zombie(pid: int) -> bool:
    """Whether a child process seems to have ended and to wait to be asked for its exit code.

    So does, for a moment, a process that replaces itself by another program from a thread.
    """
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _run(folder: str, command: str, arguments: list[str]) -> Any:
    os.chdir(folder)
    with open("output.txt", "a") as output, redirect_stdout(output), redirect_stderr(output):
        return import_module(command).main(arguments)


def _start(
    folder: str, command: str, arguments: list[str], environment: dict[str, str] | None
) -> int:
    ray = sys.modules.get("ray")
    assert ray is None or not ray.is_initialized()
    if pid := os.fork():
        return pid
    os.setsid()
    os.chdir(folder)
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)
    for descriptor, name in enumerate((os.devnull, "output.txt", "errors.txt")):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND if descriptor else os.O_RDONLY
        os.dup2(os.open(name, flags), descriptor)
    code = 1
    try:
        code = import_module(command).main(arguments)
        if ray is not None:
            ray.shutdown()  # what Python would do at the end of a process that was not forked
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _poll(pid: int) -> int | None:
    """The exit code of a process, or None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _imported(modules: list[str]) -> list[str]:
    return [name for name in modules if name in sys.modules]


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not be taken for an answer
    for module in sys.argv[1:]:
        import_module(module)
    handlers = {"run": _run, "start": _start, "poll": _poll, "imported": _imported}
    for line in sys.stdin:
        name, *values = json.loads(line)
        print(json.dumps(handlers[name](*values)), file=answers, flush=True)
