"""`mlflow server` in one process, for a command server that has imported MLflow before.

The real command starts a second Python that imports MLflow once more, which takes five seconds.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

import mlflow.server
import mlflow.server.fastapi_app  # what the second Python would import
import uvicorn
from mlflow.cli import cli


def _serve_here(command: Sequence[str], extra_env: Mapping[str, str], **options: Any) -> None:
    """In place of starting `python -m uvicorn ARGUMENTS`."""
    _, _, program, *arguments = command
    assert program == "uvicorn"
    os.environ.update(extra_env)
    uvicorn.main(arguments)


def main(arguments: Sequence[str]) -> int:
    """`mlflow server ARGUMENTS`, which ends by a signal."""
    with mock.patch.object(mlflow.server, "_exec_cmd", _serve_here):
        cli(["server", *arguments])
    return 1
