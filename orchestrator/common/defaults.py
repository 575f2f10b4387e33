"""Defaults that come from the environment."""

import os
from pathlib import Path


def default_tracking_uri() -> str:
    """MLFLOW_TRACKING_URI, or ./mlflow.db."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path('mlflow.db').absolute()}"
