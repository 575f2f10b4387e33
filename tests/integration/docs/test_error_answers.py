"""docs/errors.md quotes messages that the program really prints."""

import ast
import re

import pytest

from tests.support.shell_blocks import ROOT

PAGE = (ROOT / "docs" / "errors.md").read_text()
QUOTED = re.findall(r"^\*\*`([^`]+)`\*\*", PAGE, re.MULTILINE)


def message_templates(folder: str) -> list[str]:
    """Every string in the code of a package, with `...` in place of values."""
    templates = []
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [v.value if isinstance(v, ast.Constant) else "..." for v in node.values]
                templates.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                templates.append(node.value)
    return templates


TEMPLATES = [
    text for folder in ("tardis_core", "orchestrator") for text in message_templates(folder)
]


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_exists(message):
    assert any(message in text for text in TEMPLATES)


def test_an_invented_message_is_not_found():
    assert len(QUOTED) >= 25
    assert not any("no such words" in text for text in TEMPLATES)
