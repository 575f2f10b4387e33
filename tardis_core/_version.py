"""The one place where the version is written; a build reads it without installing torch."""

__version__ = "0.1.0"
