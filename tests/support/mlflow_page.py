"""The runs page of the MLflow UI, as a browser shows it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.browser import Browser
from tests.support.servers import free_port, wait_until_healthy

# MLflow opens its assistant over the table when it sees a browser for the first time.
ASSISTANT_SEEN = 'localStorage.setItem("mlflow.assistant.fab.autoOpenedOnFirstLoad_v1", "true")'
ROWS = """
Object.values([...document.querySelectorAll(".ag-row")].reduce((rows, row) => {
    const cells = [...row.querySelectorAll("[col-id]")];
    const text = cell => cell.innerText.trim().split("\\n").pop();  // after the name of a colour
    const values = cells.map(cell => [cell.getAttribute("col-id"), text(cell)]);
    const id = row.getAttribute("row-id");  // a row has two parts: scrolling and fixed columns
    return {...rows, [id]: {...rows[id], ...Object.fromEntries(values)}};
}, {}))
"""


@contextmanager
def served(name: str, folder: Path) -> Iterator[str]:
    """Run `python -m orchestrator.ui NAME` in a folder; yields the address that it prints."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "orchestrator.ui", name, "--port", str(port)],
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
        wait_until_healthy(f"http://127.0.0.1:{port}", server)
        yield address
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def look(browser: Browser, address: str, sweep: str) -> list[dict[str, str]]:
    """Open the runs page and expand the sweep; returns the rows of the table by column."""
    browser.before_every_page(ASSISTANT_SEEN)
    browser.open(address)
    row = '[...document.querySelectorAll(".ag-row")].find(row => row.innerText.includes("%s"))'
    browser.wait_for(f"!!({row % sweep})")
    browser.run(f"({row % sweep}).querySelector('[col-id*=\"Run Name\"] button').click()")
    browser.wait_for(f"!!({row % 'trial 0'})")
    return list(browser.run(ROWS))
