"""What the reports of searches and comparisons say at their top: where the results come from."""

from collections.abc import Mapping
from datetime import datetime

from tardis_core.text import duration

VERSION = "version."


def facts(
    tags: Mapping[str, str], command: str = "", started: int | None = None, last: int | None = None
) -> dict[str, str]:
    """Command, time, data, hardware and versions by their labels; what is not known is left out.

    Args:
        tags: of the sweep.
        command: as it was typed.
        started, last: when the sweep began and when it was last heard of, in milliseconds.
    """
    versions = {key: value for key, value in tags.items() if key.startswith(VERSION)}
    every = {
        "Command": command,
        "Started": _when(started, last),
        "Data": _data(tags),
        "Hardware": tags.get("hardware", ""),
        "Code": tags.get("git_commit", ""),
        "Versions": ", ".join(f"{k.removeprefix(VERSION)} {v}" for k, v in versions.items()),
        "User": tags.get("user", ""),
    }
    return {label: value for label, value in every.items() if value}


def made_up(tags: Mapping[str, str]) -> list[str]:
    """A warning if the data is a stand-in."""
    if tags.get("data.real", "True") == "True":
        return []
    return [
        f"The data is {tags.get('data')}, generated in place of the real data: results on it say "
        "nothing about the real data."
    ]


def _when(started: int | None, last: int | None) -> str:
    if not started:
        return ""
    text = datetime.fromtimestamp(started / 1000).astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return f"{text}, {duration((last - started) / 1000)}" if last else text


def _data(tags: Mapping[str, str]) -> str:
    name, sha256 = tags.get("data", ""), tags.get("data.sha256", "")
    return f"{name}, SHA-256 {sha256[:12]}" if name and sha256 else name
