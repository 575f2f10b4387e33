"""Ray, Optuna and MLflow talk a lot: what they say goes to a file."""

import logging
import warnings
from pathlib import Path

# Ray gives some of its parts handlers of their own.
NOISY = ("ray", "ray.tune", "ray.train", "ray.data", "optuna", "mlflow", "alembic", "py.warnings")


def quiet(log_file: Path) -> None:
    """Send the loggers of the libraries, and all warnings, to the file."""
    handler = logging.FileHandler(log_file)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    for name in NOISY:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
    logging.captureWarnings(True)
    warnings.simplefilter("default")
