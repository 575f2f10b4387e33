"""The commands of the documentation: fenced `sh` blocks, and `python -m ...` in sentences."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IN_A_SENTENCE = re.compile(r"`((?:[A-Z_]+=\S+ |sudo )*\S*python -m [^`]+)`")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")


class Command(NamedTuple):
    """One command as a reader would type it."""

    words: tuple[str, ...]
    place: str  # the page that shows it first

    @property
    def text(self) -> str:
        """The words joined to a line; `.venv/bin/python` is `python`."""
        return " ".join(self.words)

    @property
    def module(self) -> str:
        """The module that `python -m` runs; empty for other commands."""
        return self.words[2] if self.words[:2] == ("python", "-m") else ""


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    return [body for name, body in FENCE.findall(page.read_text()) if name == language]


def commands_of(page: Path) -> Iterator[Command]:
    """All commands of a page."""
    lines = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    prose = FENCE.sub("", page.read_text())
    lines += [text for text in IN_A_SENTENCE.findall(prose) if "..." not in text]
    for line in lines:
        words: list[str] = []
        for word in [*shlex.split(line, comments=True), "&&"]:
            if word != "&&":
                words.append(word)
            elif words:
                if plain := _plain(words):
                    yield Command(plain, os.path.relpath(page, ROOT))
                words = []


def _plain(words: list[str]) -> tuple[str, ...]:
    """The command without `sudo`, `export` and variables; empty if nothing is left."""
    while words[0] in ("sudo", "export") or ASSIGNMENT.fullmatch(words[0]):
        if len(words) == 1:
            return ()
        words = words[1:]
    return (words[0].removeprefix(".venv/bin/"), *words[1:])


def every_command() -> list[Command]:
    """The distinct commands of all pages."""
    commands: dict[tuple[str, ...], Command] = {}
    for page in PAGES:
        for command in commands_of(page):
            commands.setdefault(command.words, command)
    return list(commands.values())
