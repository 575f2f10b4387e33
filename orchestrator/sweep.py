"""Search for the best settings of a task: `python -m orchestrator.sweep ptb`.

This file is for `python -m` alone, and nothing imports it: an import would replace the function
`orchestrator.sweep` by this module.
"""

import sys

from orchestrator.sweep_command import main

if __name__ == "__main__":
    sys.exit(main())
