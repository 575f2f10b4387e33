"""The one place where the version is written; it imports nothing, so that a build need not install torch."""

__version__ = "0.1.0"
