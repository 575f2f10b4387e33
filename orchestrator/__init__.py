"""Sweeps of trainings on one machine or many: the only package that knows Ray and MLflow.

from orchestrator import sweep
search = sweep("copy", scale="smoke", trials=4)
search.leaderboard                              # a pandas table, the best trial first
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.api import Sweep, compare, sweep, train

__all__ = ["Sweep", "compare", "sweep", "train"]


def __getattr__(name: str) -> Any:
    # Imported on first use: Ray takes seconds to import, and most modules do not need it.
    if name in __all__:
        from orchestrator import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
