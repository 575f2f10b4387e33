"""The pages fit together: links lead somewhere, the README reaches them all, its code runs."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from orchestrator import api
from tests.support.shell_blocks import PAGES, ROOT, blocks

EVERY_PAGE = [*PAGES, ROOT / "CHANGELOG.md"]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
COMMANDS = ("sweep", "compare", "evaluate", "inspect", "sample", "reproduce", "doctor", "ui")
CORE_COMMANDS = ("train", "evaluate", "ngram")
# Words that the vocabulary of CONTRIBUTING.md has replaced.
DIALECT = re.compile(
    r"\b(rivals?|pictures?|(bits|nats) a (bit|character|symbol)|error a digit|symbols a second|"
    r"taken? up again|what is taken for what|given up by Ray|classical line)\b"
)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    titles = HEADING.findall(FENCED.sub("", text))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> list[str]:
    """The links of a page to files or headings that do not exist."""
    broken = []
    for path, anchor in LINK.findall(page.read_text()):
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            broken.append(f"{path}#{anchor}")
    return broken


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page):
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "other.md").write_text("# What it is: `x`, 2 ways\n")
    page = tmp_path / "page.md"
    page.write_text("[a](other.md#what-it-is-x-2-ways) [b](other.md#nowhere) [c](missing.md)")
    assert broken_links(page) == ["other.md#nowhere", "missing.md#"]


def test_every_page_is_linked_from_the_readme():
    text = (ROOT / "README.md").read_text()
    pages = [str(page.relative_to(ROOT)) for page in PAGES[1:]]
    assert [page for page in pages if f"({page}" not in text] == []
    assert len(text.splitlines()) < 200


def test_the_readme_lists_every_command():
    text = (ROOT / "README.md").read_text()
    modules = [f"orchestrator.{name}" for name in COMMANDS]
    modules += [f"tardis_core.{name}" for name in CORE_COMMANDS]
    assert [module for module in modules if f"| `python -m {module}" not in text] == []


def test_the_layer_of_the_readme_runs():
    names: dict = {}
    for text in blocks(ROOT / "README.md", "python"):
        exec(text, names)
    assert names["output"].shape == (8, 50, names["layer"].output_size)


def test_paths_named_in_the_pages_exist():
    named = re.compile(
        r"`((?:tardis_core|orchestrator|search_spaces|benchmarks|tests|examples|docker)/[\w./-]+)`"
    )
    made_by_the_reader = re.compile(r"NAME|TASK|mytext|secrets")
    missing = {
        path
        for page in PAGES
        for path in named.findall(page.read_text())
        if not made_by_the_reader.search(path) and not (ROOT / path).exists()
    }
    assert missing == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_the_vocabulary(page):
    commands = re.compile(r"`[^`]*`")  # a commit's own commands keep their names
    assert DIALECT.findall(commands.sub("", page.read_text())) == []


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_no_path_of_a_particular_machine(page):
    assert re.findall(r"(?<![\w.])/(?:root|home|work|tmp)/\S*", page.read_text()) == []


@pytest.mark.parametrize(("page", "function"), [("sweeps", "sweep"), ("compare", "compare")])
def test_arguments_of_the_python_examples_exist(page, function):
    parameters = inspect.signature(getattr(api, function)).parameters
    calls = [
        node
        for text in blocks(ROOT / "docs" / f"{page}.md", "python")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == function
    ]
    assert calls
    given = {keyword.arg for call in calls for keyword in call.keywords}
    assert given <= parameters.keys()
