"""How long does the report of a large sweep take: to write, and to open in Chromium?

python -m benchmarks.tools.sample_sweep big --trials 10000
python -m benchmarks.tools.report_load big
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from orchestrator.planning.plan import load_plan
from orchestrator.results import search_page
from orchestrator.results.records import Records
from tests.support.browser import Browser

# Seconds from the request until the plots have been drawn and a frame was shown.
SHOWN = """
addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(
    () => { window.shown = performance.now() / 1000; })));
"""


def main() -> int:
    """Write the report of a sweep, open it, and print what that took."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tools.report_load", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("name", help="name of a sweep in this folder")
    options = parser.parse_args()
    started = time.process_time()
    records = Records.load(load_plan(options.name))
    search_page.write(records, records.plan.folder)
    path = records.plan.folder / search_page.PAGE
    written = time.process_time() - started
    size = path.stat().st_size / 1e6
    print(f"{len(records.trials)} trials: {size:.1f} MB, written in {written:.1f} s of CPU time")
    print("opened in " + ", ".join(f"{seconds:.2f}" for seconds in _loads(path)) + " s")
    return 0


def _loads(path: Path, times: int = 3) -> list[float]:
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as browser:
        browser.before_every_page(SHOWN)
        seconds = []
        for _ in range(times):
            browser.open(path.absolute().as_uri())
            seconds.append(float(browser.wait_for("window.shown")))
            browser.open("about:blank")
        return seconds


if __name__ == "__main__":
    sys.exit(main())
