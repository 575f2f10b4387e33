"""`mlflow server` in one process, forked from one that has imported MLflow before.

The real command starts a second Python that imports MLflow once more, which takes five seconds.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
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


def serve(folder: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """`mlflow server ARGUMENTS` in a folder and a process group of its own, until it is killed."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    output = os.open("server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    with mock.patch.object(mlflow.server, "_exec_cmd", _serve_here):
        cli(["server", *arguments])
