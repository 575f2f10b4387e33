"""Open the MLflow UI on the store of a sweep: `python -m orchestrator.ui NAME`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence

from orchestrator.common.defaults import default_tracking_uri
from orchestrator.common.redaction import masked
from orchestrator.planning.plan import SweepPlan, load_plan
from orchestrator.tracking.mlflow_store import (
    check_uri,
    database_file,
    existing_store,
    reach_store,
)
from tardis_core.cli import Parser, command
from tardis_core.errors import UserError

VIEW = "tardis"
PARAMETERS = ("estimator", "memory.cells", "model.hidden", "training.learning_rate")
WIDTHS = (100, 95, 115, 115, 165, 70)  # in pixels: the metric, the parameters, the tag


def port(text: str) -> int:
    """A port that a server can have."""
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 65535, not {text!r}")
    return int(text)


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(prog="python -m orchestrator.ui", description=__doc__)
    parser.add_argument("name", nargs="?", help="name of a sweep (default: open ./mlflow.db)")
    parser.add_argument("--tracking-uri", default="", help="MLflow tracking URI to open instead")
    parser.add_argument("--port", type=port, default=5000, help="port on 127.0.0.1 (default: 5000)")
    return parser


def runs_page(plan: SweepPlan) -> str:
    """The page of the sweep's experiment, with columns that distinguish its trials.

    By default MLflow shows no metrics and parameters. A shared view, as its share button creates
    one, is a tag of the experiment.
    """
    client, experiment_id = reach_store(plan.tracking_uri, plan.experiment)
    params = [f"params.`{name}`" for name in PARAMETERS]
    columns = [f"metrics.`valid_{plan.metric}`", *params, "tags.`pruned`"]
    first = ["attributes.`Run Name`", "runDateAndNestInfo", "duration"]
    view = {
        "selectedColumns": columns,
        "columnOrder": [*first, *columns],
        "columnWidths": dict(zip([*first, *columns], [165, 145, 80, *WIDTHS], strict=True)),
        "orderByKey": "attributes.start_time",  # any other order separates trials from their sweep
        "orderByAsc": False,
    }
    client.set_experiment_tag(experiment_id, f"mlflow.sharedViewState.{VIEW}", json.dumps(view))
    query = f"viewStateShareKey={VIEW}&workflowType=machine_learning"
    return f"/#/experiments/{experiment_id}/runs?{query}"


def server_command(port: int) -> list[str]:
    """The command that serves a store to this machine only."""
    where = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    return [sys.executable, "-m", "mlflow", "server", *where]


def server_environment(uri: str) -> dict[str, str]:
    """The environment of the server: a command line would show the password of the store."""
    return {
        # Its job queue takes half a minute to start and is not needed to browse runs.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        **os.environ,
        "MLFLOW_BACKEND_STORE_URI": uri,
    }


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Print the address, and become the server."""
    options = parser().parse_args(arguments)
    plan = load_plan(options.name) if options.name else None
    uri = options.tracking_uri or (plan.tracking_uri if plan else default_tracking_uri())
    check_uri(uri)
    database = database_file(uri)
    if database is not None and not database.exists():
        raise UserError(f"there is no store {database}; run a sweep first, or name a sweep")
    page = runs_page(plan) if plan and uri == plan.tracking_uri else ""
    if uri.startswith(("http://", "https://")):
        existing_store(uri)
        print(f"the sweep is tracked by a server: open {masked(uri)}{page}")
        return 0
    print(f"open http://127.0.0.1:{options.port}{page}", flush=True)
    print("(ready in about 15 s; stop with Ctrl-C)", flush=True)
    command_line = server_command(options.port)
    os.execve(command_line[0], command_line, server_environment(uri))


if __name__ == "__main__":
    sys.exit(main())
