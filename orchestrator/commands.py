"""The commands that train: options first, then the libraries that take seconds to import."""

import sys
from collections.abc import Sequence

from orchestrator.planning.arguments import comparison_options, search_options
from tardis_core import threads
from tardis_core.cli import command


@command
def sweep(arguments: Sequence[str] | None = None) -> int:
    """`python -m orchestrator.sweep`."""
    options = search_options(arguments)
    _announce()
    from orchestrator import sweep_command

    return sweep_command.run(options)


@command
def compare(arguments: Sequence[str] | None = None) -> int:
    """`python -m orchestrator.compare`."""
    options = comparison_options(arguments)
    _announce()
    from orchestrator import compare_command

    return compare_command.run(options)


def _announce() -> None:
    """Say that something happens: the libraries and Ray take seconds to start."""
    threads.wait_passively()  # the workers of Ray, too
    print("starting ...", file=sys.stderr, flush=True)
