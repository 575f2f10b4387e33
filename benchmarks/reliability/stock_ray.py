"""The stock stack for comparison: Ray Tune with its own restore and its own MLflow callback.

    python -m benchmarks.reliability.stock_ray FOLDER --trials 8

The same command again resumes, as Ray's documentation says.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback

SPACE = {"x": tune.uniform(0, 1)}
RESULTS, SECONDS = 6, 0.4  # of a trial, and between two of its results


def train(config: dict[str, float]) -> None:
    """A trial that waits, and sends a result with a checkpoint each time."""
    first, saved = 1, tune.get_checkpoint()
    if saved is not None:
        with saved.as_directory() as folder:
            first = json.loads((Path(folder) / "step.json").read_text()) + 1
    for step in range(first, RESULTS + 1):
        time.sleep(SECONDS)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "step.json").write_text(json.dumps(step))
            saved = tune.Checkpoint.from_directory(folder)
            tune.report({"valid": config["x"] / step}, checkpoint=saved)


def main() -> None:
    """Start the experiment, or restore it if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=8)
    options = parser.parse_args()
    place = str(options.folder / "ray" / "stock")
    if tune.Tuner.can_restore(place):
        # With the space: killed before its first snapshot, an experiment does not know it.
        tuner = tune.Tuner.restore(
            place, train, param_space=SPACE, resume_unfinished=True, resume_errored=True
        )
    else:
        tuner = tune.Tuner(
            train,
            param_space=SPACE,
            tune_config=tune.TuneConfig(num_samples=options.trials, max_concurrent_trials=2),
            run_config=tune.RunConfig(
                name="stock",
                storage_path=str(options.folder / "ray"),
                failure_config=tune.FailureConfig(max_failures=3),
                callbacks=[
                    MLflowLoggerCallback(
                        tracking_uri=f"sqlite:///{options.folder}/mlflow.db",
                        experiment_name="stock",
                    )
                ],
            ),
        )
    tuner.fit()


if __name__ == "__main__":
    main()
