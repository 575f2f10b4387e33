"""Options of the commands that take a trained model; importing them takes no time."""

from tardis_core.cli import Parser


def run_parent() -> Parser:
    """A parent parser with RUN and the store to look it up in."""
    parent = Parser(add_help=False)
    parent.add_argument(
        "run",
        metavar="RUN",
        help="folder of a run, checkpoint file, name of a sweep (its best trial), or MLflow run id",
    )
    parent.add_argument(
        "--tracking-uri",
        default="",
        help="MLflow tracking URI (default: MLFLOW_TRACKING_URI, or ./mlflow.db)",
    )
    return parent


def out_parent() -> Parser:
    """A parent parser with `--out`."""
    parent = Parser(add_help=False)
    parent.add_argument(
        "--out", metavar="DIR", help="folder for the results (default: in the folder of the run)"
    )
    return parent
