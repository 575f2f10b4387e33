"""Sends the logs of Ray, Optuna and MLflow to a file instead of the terminal."""

import logging
import warnings
from pathlib import Path

from orchestrator.common.redaction import masked

# They install handlers for the terminal.
NOISY = ("ray", "ray.tune", "ray.train", "ray.data", "optuna", "mlflow", "alembic", "py.warnings")


class _Masking(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return masked(super().format(record))


class _LogFile(logging.FileHandler):
    """Our own handler, distinguishable from those of others."""


def redirect_library_logs(log_file: Path) -> None:
    """Send the logs of libraries and all warnings to the file, and nowhere else."""
    handler = _LogFile(log_file)
    handler.setFormatter(_Masking("%(asctime)s %(name)s %(levelname)s %(message)s"))
    # On the root logger: `ray.init` removes all handlers of Ray's own.
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each, _LogFile)]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    for name in NOISY:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
    logging.captureWarnings(True)
    warnings.simplefilter("default")
