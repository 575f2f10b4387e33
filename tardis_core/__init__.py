"""TARDIS, its gradient estimators, the baselines and the tasks, on one machine."""

from typing import TYPE_CHECKING, Any

from tardis_core._version import __version__

if TYPE_CHECKING:
    from tardis_core.layer import Tardis, detach

__all__ = ["Tardis", "__version__", "detach"]


def __getattr__(name: str) -> Any:
    # Not before it is asked for: torch takes seconds to import, and not every process needs it.
    if name in ("Tardis", "detach"):
        from tardis_core import layer

        return getattr(layer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
