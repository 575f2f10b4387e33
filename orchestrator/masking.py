"""Secrets out of texts: what is printed, logged or recorded passes here."""

import re

_URI = re.compile(r"(://[^:/@\s]*):[^@/\s]*@")
_QUERY = re.compile(r"([?&](?:password|secret_key|token)=)[^&\s]+", re.IGNORECASE)


def masked(text: str) -> str:
    """The text without the passwords of the URIs in it."""
    return _QUERY.sub(r"\1***", _URI.sub(r"\1:***@", text))
