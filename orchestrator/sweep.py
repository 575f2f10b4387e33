"""Search for the best settings of a task: `python -m orchestrator.sweep ptb`.

The module is for `python -m` alone; imported, it is the function of the same name.
"""

import sys

if __name__ == "__main__":
    from orchestrator.commands import sweep

    sys.exit(sweep())

from orchestrator import api

sys.modules[__name__] = api.sweep  # type: ignore[assignment]
