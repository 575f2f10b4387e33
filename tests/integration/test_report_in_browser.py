"""The reports of a search and a comparison in a real browser: they draw, sort and fit a phone."""

import pytest

from orchestrator.comparison import page as comparison_page
from orchestrator.results import search_page
from orchestrator.results.records import Records
from tests.support.browser import CHROMIUM, Browser
from tests.support.comparisons import compared
from tests.support.sweep_logs import fill, make_plan

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt install chromium")
EVIL = '</script><script>alert("x")</script>'
# Notes whatever goes wrong in a page, before its own scripts run.
LISTEN = """
window.problems = [];
window.alert = text => problems.push(`alert ${text}`);
console.error = (...words) => problems.push(words.join(" "));
addEventListener("error", event => problems.push(event.message));
addEventListener("securitypolicyviolation", event => problems.push(event.violatedDirective));
"""
# How many canvases of the page have something on them.
DRAWN = """
[...document.querySelectorAll("canvas")].filter(canvas => {
    const {width, height} = canvas;
    return width && canvas.getContext("2d").getImageData(0, 0, width, height).data.some(n => n);
}).length
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        browser.before_every_page(LISTEN)
        yield browser


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def search(folder):
    plan = make_plan()
    fill(plan, [0.5, None, *(0.3 + n / 50 for n in range(30)), 0.125, (0.05,)])
    search_page.write(Records.load(plan), folder)
    return 4  # plots


def comparison(folder):
    _, data = compared({EVIL: [0.4, 0.2, 0.3], "b": [0.1, 0.3, 0.2]}, seeds=(1, 2, 3))
    comparison_page.write(data, folder)
    return 5


@pytest.mark.parametrize("write", [search, comparison])
@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_a_report_draws_its_plots_and_fits_the_screen(browser, here, write, scheme, width):
    plots = write(here)
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=media)
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    browser.open((here / "report.html").as_uri())
    browser.wait_for(f"document.readyState === 'complete' && {DRAWN} === {plots}")
    assert browser.run("problems") == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    dark = browser.run("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")


def test_the_leaderboard_sorts_and_shows_all_trials(browser, here):
    search(here)
    browser.open((here / "report.html").as_uri())
    browser.wait_for("document.readyState === 'complete'")
    numbers = "[...document.querySelectorAll('tbody')][0].rows.length"
    assert browser.run(numbers) == 15
    browser.run("document.querySelector('.more').click()")
    assert browser.run(numbers) == 34
    browser.run("document.querySelector('th button').click()")  # by the number of the trial
    first = "[...document.querySelectorAll('tbody tr')].map(row => +row.cells[0].textContent)"
    assert browser.run(first)[:34] == list(range(34))


def test_the_pointer_finds_a_trial(browser, here):
    search(here)
    browser.open((here / "report.html").as_uri())
    browser.wait_for(f"document.readyState === 'complete' && {DRAWN} === 4")
    tooltip = browser.run(
        """(() => {
            const canvas = document.querySelector("[data-kind=points] canvas");
            for (let y = 30; y < canvas.clientHeight; y += 8) {
                const event = new PointerEvent("pointermove", {clientX: 60, clientY: 0});
                Object.defineProperties(event, {offsetX: {value: 53}, offsetY: {value: y}});
                canvas.dispatchEvent(event);
                const tip = document.getElementById("tip");
                if (!tip.hidden) return tip.textContent;
            }
        })()"""
    )
    assert tooltip == "trial 0, complete\n0.5"
