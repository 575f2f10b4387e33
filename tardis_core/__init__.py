"""TARDIS, its gradient estimators, its rivals and its tasks, on one machine."""

from tardis_core._version import __version__

__all__ = ["__version__"]
