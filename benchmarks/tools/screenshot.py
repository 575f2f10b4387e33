"""Look at a sweep in the MLflow UI with headless Chromium, and keep the picture.

python -m orchestrator.sweep ptb --smoke --name small
python -m benchmarks.tools.screenshot small --out docs/mlflow-runs.png
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.reliability.sweep_checks import free_port
from benchmarks.tools.browser import PATIENCE, Browser

# MLflow opens its assistant over the table when it sees a browser for the first time.
ASSISTANT_SEEN = 'localStorage.setItem("mlflow.assistant.fab.autoOpenedOnFirstLoad_v1", "true")'
ROWS = """
Object.values([...document.querySelectorAll(".ag-row")].reduce((rows, row) => {
    const cells = [...row.querySelectorAll("[col-id]")];
    const text = cell => cell.innerText.trim().split("\\n").pop();  // behind the name of a colour
    const found = cells.map(cell => [cell.getAttribute("col-id"), text(cell)]);
    const id = row.getAttribute("row-id");  // a row is in pieces: what scrolls, and what stays
    return {...rows, [id]: {...rows[id], ...Object.fromEntries(found)}};
}, {}))
"""


@contextmanager
def served(name: str, folder: Path) -> Iterator[str]:
    """`python -m orchestrator.ui NAME` in the folder; yields the address that it says to open."""
    port = free_port()
    asked = [sys.executable, "-m", "orchestrator.ui", name, "--port", str(port)]
    server = subprocess.Popen(
        asked,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert server.stdout is not None
        address = server.stdout.readline().removeprefix("open ").strip()
        _wait_until_up(port)
        yield address
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _wait_until_up(port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError("the UI did not come up")


def look(browser: Browser, address: str, sweep: str) -> list[dict[str, str]]:
    """Open the runs page and unfold the sweep; returns the rows of the table, by column."""
    browser.before_every_page(ASSISTANT_SEEN)
    browser.open(address)
    named = '[...document.querySelectorAll(".ag-row")].find(row => row.innerText.includes("%s"))'
    browser.wait_for(f"!!({named % sweep})")
    browser.run(f"({named % sweep}).querySelector('[col-id*=\"Run Name\"] button').click()")
    browser.wait_for(f"!!({named % 'trial 0'})")
    return list(browser.run(ROWS))


def main() -> None:
    """Take the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="of a sweep in this folder")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as profile,
        served(options.name, Path.cwd()) as address,
        Browser(Path(profile), width=1440, height=740) as browser,
    ):
        rows = look(browser, address, options.name)
        print(f"{len(rows)} rows at {address}")
        # What covers the table: the note that this view is shared, and the assistant's button.
        browser.run("""
            [...document.querySelectorAll("button")]
                .filter(button => button.parentElement.innerText.includes("Exit shared view"))
                .forEach(button => button.innerText || button.click());
            [...document.querySelectorAll("button")]
                .filter(button => /Assistant/.test(button.innerText + button.ariaLabel))
                .forEach(button => button.style.display = "none");
        """)
        time.sleep(1)
        browser.picture(options.out)


if __name__ == "__main__":
    main()
