"""Which model is better, and how certain is that? `python -m orchestrator.compare copy`.

The module is for `python -m` alone; imported, it is the function of the same name.
"""

import sys

if __name__ == "__main__":
    from orchestrator.commands import compare

    sys.exit(compare())

from orchestrator import api

sys.modules[__name__] = api.compare  # type: ignore[assignment]
