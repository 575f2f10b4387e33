"""The fast path: whole sequences by one function, proven equal to the readable models."""

from tardis_core.kernels.select import resolve, run_lstm, run_tardis

__all__ = ["resolve", "run_lstm", "run_tardis"]
