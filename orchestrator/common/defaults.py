"""Defaults that come from the environment."""

import os
from pathlib import Path


def default_tracking_uri() -> str:
    """MLFLOW_TRACKING_URI, or ./mlflow.db."""
    return os.environ.get("MLFLOW_TRACKING_URI") or sqlite_uri(Path("mlflow.db"))


def sqlite_uri(database: Path) -> str:
    """The URI of a SQLite file; what a URI would read otherwise is escaped."""
    path = str(database.absolute())
    return f"sqlite:///{path.replace('%', '%25').replace('?', '%3F')}"
