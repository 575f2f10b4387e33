"""The stock stack for comparison: Optuna with its RDB storage and its own MLflow callback.

    python -m benchmarks.reliability.stock_optuna FOLDER --trials 8

The same command again resumes, as Optuna's documentation says: it runs the trials that are missing.
"""

import argparse
import time
from pathlib import Path

import optuna
from optuna.trial import TrialState

from benchmarks.reliability.stock_ray import RESULTS, SECONDS

try:
    from optuna_integration import MLflowCallback
except ImportError as error:
    raise SystemExit("this comparison needs: pip install optuna-integration[mlflow]") from error


def train(trial: optuna.Trial) -> float:
    """A trial that waits, and reports a value each time."""
    value = 0.0
    for step in range(1, RESULTS + 1):
        time.sleep(SECONDS)
        value = trial.suggest_float("x", 0, 1) / step
        trial.report(value, step)
    return value


def main() -> None:
    """Run the trials that have not ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=8)
    options = parser.parse_args()
    study = optuna.create_study(
        study_name="stock",
        storage=f"sqlite:///{options.folder}/study.db",
        load_if_exists=True,
    )
    uri = f"sqlite:///{options.folder}/mlflow.db"
    callback = MLflowCallback(tracking_uri=uri, metric_name="valid")
    ended = [each for each in study.trials if each.state is not TrialState.RUNNING]
    study.optimize(train, n_trials=options.trials - len(ended), n_jobs=2, callbacks=[callback])


if __name__ == "__main__":
    main()
