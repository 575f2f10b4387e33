"""The commands that train: options first, then the libraries that take seconds to import."""

import os
import sys
from collections.abc import Sequence

from orchestrator.planning.arguments import comparison_options, search_options
from tardis_core import threads
from tardis_core.cli import EXIT_INTERRUPTED, Parser, command
from tardis_core.stopping import stop_signals
from tardis_core.train import parsed, train_parser


@command
def sweep(arguments: Sequence[str] | None = None) -> int:
    """`python -m orchestrator.sweep`."""
    options = search_options(arguments)
    _announce()
    from orchestrator import sweep_command

    return _ended(sweep_command.run(options))


@command
def compare(arguments: Sequence[str] | None = None) -> int:
    """`python -m orchestrator.compare`."""
    options = comparison_options(arguments)
    _announce()
    from orchestrator import compare_command

    return _ended(compare_command.run(options))


@command
def train(arguments: Sequence[str] | None = None) -> int:
    """`python -m tardis_core.train`, which can also record the run in MLflow."""
    options = parsed(arguments, tracked_train_parser())
    track, uri = options.pop("track"), options.pop("tracking_uri")
    threads.wait_passively()
    from orchestrator.common.defaults import default_tracking_uri
    from tardis_core import train_session

    if options.pop("help_settings"):
        train_session.print_settings(train_session.TrainOptions(**options).config())
        return 0
    observers: list[train_session.Observer] = []
    if track or uri:
        from orchestrator.tracking.single_run import RunTracker

        observers.append(RunTracker(uri or default_tracking_uri()))
    run = train_session.train(train_session.TrainOptions(**options), observers)
    return 0 if run.finished else EXIT_INTERRUPTED


def tracked_train_parser() -> Parser:
    """The options of `tardis train`."""
    parser = train_parser()
    parser.prog = "tardis train"
    group = parser.add_argument_group("tracking")
    group.add_argument("--track", action="store_true", help="record the run in MLflow")
    group.add_argument(
        "--tracking-uri",
        default="",
        help="MLflow tracking URI (default: MLFLOW_TRACKING_URI, or ./mlflow.db); implies --track",
    )
    return parser


def _ended(code: int) -> int:
    """The exit code; a process that was asked to stop ends here, together with a Ray of its own.

    Ray's way to end makes SIGTERM fatal again and takes another second or two, in which a second
    signal, as schedulers send it, would end the process without its exit code.
    """
    from orchestrator.execution import ray_internals

    if stop_signals.number is not None and ray_internals.own_services():
        sys.stdout.flush()
        sys.stderr.flush()
        ray_internals.kill_services()
        os._exit(stop_signals.exit_code)
    return code


def _announce() -> None:
    """Say that something happens: the libraries and Ray take seconds to start."""
    threads.wait_passively()  # the workers of Ray, too
    print("starting ...", file=sys.stderr, flush=True)
