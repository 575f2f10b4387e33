"""The runs page of the MLflow UI, as a browser shows it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

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


CURVES = """
[...document.querySelectorAll(".js-plotly-plot")]
    .map(plot => new Set(plot.data.map(line => line.uuid || line.name)).size)
"""


class Addresses(NamedTuple):
    """What the command prints."""

    table: str
    curves: str


@contextmanager
def served(folder: Path, *name: str) -> Iterator[Addresses]:
    """Run `python -m orchestrator.ui [NAME]` in a folder; yields the addresses that it prints."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "orchestrator.ui", *name, "--port", str(port)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert server.stdout is not None
        lines = [server.stdout.readline().rsplit(" ", 1)[-1].strip() for _ in range(2)]
        wait_until_healthy(f"http://127.0.0.1:{port}", server)
        yield Addresses(*lines)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def trials(browser: Browser, addresses: Addresses) -> list[dict[str, str]]:
    """Open the table of a sweep; returns its rows by column, from top to bottom."""
    browser.before_every_page(ASSISTANT_SEEN)
    browser.open(addresses.table)
    browser.wait_for("document.querySelectorAll('.ag-row [col-id*=best_valid]').length > 0")
    return list(browser.run(ROWS))


def curves(browser: Browser, addresses: Addresses) -> list[int]:
    """Open the charts of a sweep; returns the number of lines in each of them."""
    browser.before_every_page(ASSISTANT_SEEN)
    browser.open("about:blank")  # the other page has the same address but for what follows the #
    browser.open(addresses.curves)
    browser.wait_for(f"({CURVES}).some(lines => lines > 0)")
    return list(browser.run(CURVES))
