"""Headless Chromium, driven through the two pipes of its DevTools protocol, without a driver."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium")  # Debian's package of that name
PATIENCE = 120.0  # seconds
OPTIONS = [
    "--headless",
    "--no-sandbox",  # it does not start with one as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
    "--remote-debugging-pipe",
]


class Browser:
    """A browser with one page; use it in a `with` statement."""

    def __init__(self, folder: Path, width: int = 1400, height: int = 700) -> None:
        """Start the browser with its profile in `folder`, which should be empty."""
        assert CHROMIUM is not None, "needs chromium: apt install chromium"
        browser_in, self._to = os.pipe()
        self._from, browser_out = os.pipe()
        # Chromium reads from 3 and writes to 4; higher numbers keep the ends from overlapping.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (browser_in, browser_out)]

        def connect() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [CHROMIUM, *OPTIONS, f"--user-data-dir={folder}", f"--window-size={width},{height}"],
            preexec_fn=connect,
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (browser_in, browser_out, *ends):
            os.close(end)
        self._received, self._calls, self._session = b"", 0, ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.call("Page.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol."""
        self._calls += 1
        message: dict[str, Any] = {"id": self._calls, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._calls:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._from], [], [], PATIENCE)
            more = os.read(self._from, 1 << 20) if ready else b""
            if not more:
                raise TimeoutError(f"the browser did not answer within {PATIENCE:.0f} s")
            self._received += more
        line, _, self._received = self._received.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def before_every_page(self, script: str) -> None:
        """Run a script in every page before its own scripts."""
        self.call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def open(self, url: str) -> None:
        """Open a page without waiting until it is loaded."""
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """Wait until an expression is true; returns its value."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self.run(script)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{script} did not become true within {PATIENCE:.0f} s")
            time.sleep(0.1)
        return value

    def screenshot(self, path: Path) -> None:
        """Save the visible part of the page as a PNG."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
