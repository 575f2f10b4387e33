"""Removes secrets from texts that are printed, logged or recorded."""

import re

# A password can contain any character; a number before a path or a query is a port.
_URI = re.compile(r"(://[^:/@\s]*):(?!\d+[/?#])\S*@")
_QUERY = re.compile(r"([?&]\w*(?:password|secret|token)\w*=)[^&\s]+", re.IGNORECASE)


def masked(text: str) -> str:
    """The text without the passwords of the URIs in it."""
    return _QUERY.sub(r"\1***", _URI.sub(r"\1:***@", text))
