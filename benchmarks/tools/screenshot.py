"""Take screenshots of a sweep in the MLflow UI with headless Chromium.

python -m orchestrator.sweep ptb --smoke --trials 16 --name small
python -m benchmarks.tools.screenshot small \\
    --table docs/mlflow-runs.png --curves docs/mlflow-curves.png
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.support.browser import Browser
from tests.support.mlflow_page import curves, served, trials

# What covers the page: the note that this view is shared, and the assistant's button.
UNCOVER = """
    [...document.querySelectorAll("button")]
        .filter(button => button.parentElement.innerText.includes("Exit shared view"))
        .forEach(button => button.innerText || button.click());
    [...document.querySelectorAll("button")]
        .filter(button => /Assistant/.test(button.innerText + button.ariaLabel))
        .forEach(button => button.style.display = "none");
"""


def main() -> int:
    """Serve the sweep, open it in the browser and save its two pages as PNGs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tools.screenshot", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("name", help="name of a sweep in this folder")
    parser.add_argument("--table", type=Path, required=True, help="the PNG of its trials")
    parser.add_argument("--curves", type=Path, required=True, help="the PNG of its curves")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as profile,
        served(Path.cwd(), options.name) as addresses,
        Browser(Path(profile), width=1440, height=740) as browser,
    ):
        print(f"{len(trials(browser, addresses))} rows at {addresses.table}")
        _save(browser, options.table)
        print(f"{curves(browser, addresses)} lines at {addresses.curves}")
        _save(browser, options.curves)
    return 0


def _save(browser: Browser, path: Path) -> None:
    browser.run(UNCOVER)
    time.sleep(2)  # until the page is redrawn
    browser.screenshot(path)


if __name__ == "__main__":
    sys.exit(main())
