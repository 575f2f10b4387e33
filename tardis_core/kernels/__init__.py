"""The fast path: whole sequences by one function, proven equal to the readable models.

Kernels take tensors and know no model: models import kernels, never the reverse.
"""

from tardis_core.kernels.select import Needs, resolve, run

__all__ = ["Needs", "resolve", "run"]
