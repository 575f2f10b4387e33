"""Take a screenshot of a sweep in the MLflow UI with headless Chromium.

python -m orchestrator.sweep ptb --smoke --name small
python -m benchmarks.tools.screenshot small --out docs/mlflow-runs.png
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.support.browser import Browser
from tests.support.mlflow_page import look, served

# What covers the table: the note that this view is shared, and the assistant's button.
UNCOVER_TABLE = """
    [...document.querySelectorAll("button")]
        .filter(button => button.parentElement.innerText.includes("Exit shared view"))
        .forEach(button => button.innerText || button.click());
    [...document.querySelectorAll("button")]
        .filter(button => /Assistant/.test(button.innerText + button.ariaLabel))
        .forEach(button => button.style.display = "none");
"""


def main() -> int:
    """Serve the sweep, open it in the browser and save the page as a PNG."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tools.screenshot", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("name", help="name of a sweep in this folder")
    parser.add_argument("--out", type=Path, required=True, help="the PNG to write")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as profile,
        served(options.name, Path.cwd()) as address,
        Browser(Path(profile), width=1440, height=740) as browser,
    ):
        rows = look(browser, address, options.name)
        print(f"{len(rows)} rows at {address}")
        browser.run(UNCOVER_TABLE)
        time.sleep(1)  # until the page is redrawn
        browser.screenshot(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
