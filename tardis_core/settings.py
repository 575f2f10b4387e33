"""How a setting is declared: its default value and a sentence for users."""

import dataclasses
from typing import Any


def setting(default: Any, help: str) -> Any:
    """A field of a section of the configuration; `--set help` prints the sentence."""
    return dataclasses.field(default=default, metadata={"help": help})


def help_of(section: Any) -> dict[str, str]:
    """The sentence of each field of a section, by name."""
    return {field.name: field.metadata.get("help", "") for field in dataclasses.fields(section)}
