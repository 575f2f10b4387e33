"""docs/errors.md quotes messages that the program really gives."""

import ast
import re
from pathlib import Path

import pytest

from tests.support.shell_blocks import ROOT

PAGE = (ROOT / "docs" / "errors.md").read_text()
QUOTED = re.findall(r"^\*\*`([^`]+)`\*\*", PAGE, re.MULTILINE)


def templates(folder: str) -> list[str]:
    """Every text in the code of a package, with `...` where a value goes."""
    found = []
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [v.value if isinstance(v, ast.Constant) else "..." for v in node.values]
                found.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


EVERY = [text for folder in ("tardis_core", "orchestrator") for text in templates(folder)]


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_exists(message):
    assert any(message in text for text in EVERY)


def test_there_are_messages_to_look_for():
    assert len(QUOTED) >= 25
    assert not any("no such words" in text for text in EVERY)


def test_the_pages_that_it_leads_to_exist():
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (Path(page).parent / link).exists(), f"{page.name} leads to {link}"
