"""Ray, Optuna and MLflow talk a lot: what they say goes to a file."""

import logging
import warnings
from pathlib import Path

from orchestrator.common.redaction import masked

# They give themselves handlers for the terminal.
NOISY = ("ray", "ray.tune", "ray.train", "ray.data", "optuna", "mlflow", "alembic", "py.warnings")


class _Masking(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return masked(super().format(record))


class _LogFile(logging.FileHandler):
    """Our handler, to be told from those of others."""


def redirect_library_logs(log_file: Path) -> None:
    """Send what the libraries log, and all warnings, to the file and nowhere else."""
    handler = _LogFile(log_file)
    handler.setFormatter(_Masking("%(asctime)s %(name)s %(levelname)s %(message)s"))
    # At the root: `ray.init` throws away whatever handlers it finds on Ray's own logger.
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
