"""TARDIS, its gradient estimators, its rivals and its tasks, on one machine."""

from tardis_core._version import __version__
from tardis_core.layer import Tardis, detach

__all__ = ["Tardis", "__version__", "detach"]
