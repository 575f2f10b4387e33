"""Open a sweep in the MLflow UI: `python -m orchestrator.ui NAME`; the newest without a name."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from orchestrator.common.defaults import default_tracking_uri
from orchestrator.common.redaction import masked
from orchestrator.planning.plan import PLAN_FILE, SweepPlan, folder_of, load_plan, names_here
from orchestrator.tracking.mlflow_runs import SWEEP, TRIAL
from orchestrator.tracking.mlflow_store import (
    check_uri,
    database_file,
    existing_store,
    reach_store,
)
from tardis_core.cli import Parser, command
from tardis_core.errors import UserError

MOST_SETTINGS = 12  # columns
WIDTHS = {"attributes.`Run Name`": 140, "tags.`state`": 90}  # of columns, in pixels


def port(text: str) -> int:
    """A port that a server can have."""
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 65535, not {text!r}")
    return int(text)


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(prog="python -m orchestrator.ui", description=__doc__)
    parser.add_argument("name", nargs="?", help="name of a sweep (default: the newest one here)")
    parser.add_argument("--tracking-uri", default="", help="MLflow tracking URI to open instead")
    parser.add_argument("--port", type=port, default=5000, help="port on 127.0.0.1 (default: 5000)")
    return parser


class Pages(NamedTuple):
    """Where the UI shows a sweep; the buttons above its table lead from one to the other."""

    table: str = ""  # the trials, best first
    curves: str = ""  # the learning curves of all trials in one chart


def sweep_pages(plan: SweepPlan) -> Pages:
    """The pages of a sweep in the UI.

    By default MLflow shows neither metrics nor settings, and the newest runs of all sweeps. A
    shared view, as its share button creates one, is a tag of the experiment.
    """
    client, experiment_id = reach_store(plan.tracking_uri, plan.experiment)
    view = json.dumps(_view(plan))
    key = f"tardis-{plan.name}"
    client.set_experiment_tag(experiment_id, f"mlflow.sharedViewState.{key}", view)
    # Without the type of workflow MLflow may open its page for chats.
    query = urlencode({"viewStateShareKey": key, "workflowType": "machine_learning"})
    page = f"/#/experiments/{experiment_id}/runs?{query}&compareRunsMode"
    return Pages(f"{page}=TABLE", f"{page}=CHART")


def _view(plan: SweepPlan) -> dict[str, Any]:
    """The state of the page, as MLflow stores it."""
    # Only here: they import torch and Optuna, which takes seconds.
    from orchestrator.results.leaderboard import varying_settings
    from orchestrator.results.records import Records

    columns = [
        "attributes.`Run Name`",
        "tags.`state`",
        f"metrics.`{plan.best_metric}`",
        "metrics.`training_seconds`",
        *(f"params.`{name}`" for name in varying_settings(Records.load(plan))[:MOST_SETTINGS]),
    ]
    widths = {name: 30 + 8 * len(name.split("`")[1]) for name in columns}
    section = {"uuid": "curves", "name": "Learning curves", "columns": 1, "cardHeight": 360}
    return {
        # Only the trials: under their sweep they would be folded, and in the order of time.
        "searchFilter": f"tags.`{SWEEP}` = '{plan.sweep_id}' and tags.`{TRIAL}` != ''",
        "orderByKey": f"metrics.`{plan.best_metric}`",
        "orderByAsc": plan.better == "lower",
        "selectedColumns": columns[1:],
        "columnOrder": columns,
        "columnWidths": {**widths, **WIDTHS},
        "runsHiddenMode": "SHOW_ALL",
        "compareRunSections": [{**section, "display": True, "isReordered": False}],
        "compareRunCharts": [_curves(plan, section["uuid"])],
        "chartsSearchFilter": f"^valid_{plan.metric}$",  # MLflow adds one chart per metric
    }


def _curves(plan: SweepPlan, section: object) -> dict[str, Any]:
    """The chart with the learning curves of all trials."""
    metric = f"valid_{plan.metric}"
    return {
        "type": "LINE",
        "uuid": "learning-curves",
        "metricSectionId": section,
        "metricKey": metric,
        "selectedMetricKeys": [metric],
        "xAxisKey": "step",
        "lineSmoothness": 0,
        "runsCountToCompare": 100,
        "deleted": False,
        "isGenerated": False,
    }


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


def _chosen(name: str | None, uri: str) -> SweepPlan | None:
    """The sweep to open: the one that is named, or else the newest; None in another store."""
    if name:
        return load_plan(name)
    here = names_here()
    if uri or not here:
        return None
    return load_plan(max(here, key=lambda each: (folder_of(each) / PLAN_FILE).stat().st_mtime))


def _addresses(server: str, pages: Pages) -> str:
    """What to open, one line each."""
    table = f"open {server}{pages.table}"
    return f"{table}\nlearning curves: {server}{pages.curves}" if pages.curves else table


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Print the address, and become the server."""
    options = parser().parse_args(arguments)
    plan = _chosen(options.name, options.tracking_uri)
    uri = options.tracking_uri or (plan.tracking_uri if plan else default_tracking_uri())
    check_uri(uri)
    database = database_file(uri)
    if database is not None and not database.exists():
        raise UserError(f"there is no store {database}; run a sweep first, or name a sweep")
    pages = sweep_pages(plan) if plan and uri == plan.tracking_uri else Pages()
    if uri.startswith(("http://", "https://")):
        existing_store(uri)
        print(_addresses(masked(uri), pages))
        return 0
    print(_addresses(f"http://127.0.0.1:{options.port}", pages))
    print("(ready in about 15 s; stop with Ctrl-C)", flush=True)
    command_line = server_command(options.port)
    os.execve(command_line[0], command_line, server_environment(uri))


if __name__ == "__main__":
    sys.exit(main())
