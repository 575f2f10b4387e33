"""Search the settings of a task on all there is: `python -m orchestrator.sweep ptb`.

This file is for `python -m` alone: in Python, `from orchestrator import sweep` is the function.
"""

import sys

from orchestrator.sweep_command import main

if __name__ == "__main__":
    sys.exit(main())
