"""The runs page of the MLflow UI, as a browser shows it."""

import io
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from orchestrator import ui
from tests.support.browser import Browser
from tests.support.servers import free_port, kill_server, start_server, wait_until_healthy

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


class _Replaced(Exception):
    """The command would have replaced its process by a program."""


def _program(folder: Path, *arguments: str) -> tuple[list[str], dict[str, str], str]:
    """The program that `python -m orchestrator.ui` becomes, its environment, and what is printed.

    In this process, which has imported everything.
    """

    def replace(path: str, words: list[str], environment: dict[str, str]) -> None:
        raise _Replaced(words, environment)

    printed = io.StringIO()
    with chdir(folder), mock.patch("os.execve", replace), redirect_stdout(printed):
        try:
            ui.main(arguments)
        except _Replaced as program:
            words, environment = program.args
    return words, environment, printed.getvalue()


@contextmanager
def served(folder: Path, *name: str) -> Iterator[Addresses]:
    """What `python -m orchestrator.ui [NAME]` serves in a folder; yields the printed addresses."""
    port = free_port()
    words, environment, printed = _program(folder, *name, "--port", str(port))
    lines = [line.rsplit(" ", 1)[-1] for line in printed.splitlines()[:2]]
    assert words[1:4] == ["-m", "mlflow", "server"]
    server = start_server(folder, words[4:], environment)
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", server)
        yield Addresses(*lines)
    finally:
        kill_server(server)


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
