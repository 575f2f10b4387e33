"""Short runs and a recorded sweep, which several tests of trained models share; quick plots."""

import base64
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from orchestrator.tracking.mlflow_runs import SWEEP, TRIAL
from orchestrator.tracking.mlflow_store import open_store
from tardis_core.train import main as train
from tests.support.mlflow_stores import fresh_sqlite
from tests.support.sweep_logs import fill, make_plan, put_weights

ONE_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)


@pytest.fixture(autouse=True)
def _quick_plots(request, monkeypatch):
    """Save plots as one pixel, except for `real_plots`: rendering takes most of a report's time."""

    def save(figure, file, **options):
        (file.write if hasattr(file, "write") else Path(file).write_bytes)(ONE_PIXEL)

    if "real_plots" not in request.fixturenames:
        monkeypatch.setattr(Figure, "savefig", save)


@pytest.fixture
def real_plots():
    """Plots are rendered, because the test is about them."""


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Folders of short runs by task; ptb with the memory-only head, copy also as an LSTM."""
    home = tmp_path_factory.mktemp("runs")
    quick = ["--scale", "smoke", "--data", "standin"]
    settings = ["model.hidden=8", "training.updates=2", "training.batch=4"]
    small = {
        "copy": ["task.test_sequences=16", "task.valid_sequences=16"],
        "ptb": ["task.evaluation_symbols=2000"],
        "strokes": ["task.test_sequences=20", "task.valid_sequences=20"],
        "snli": ["task.evaluation_pairs=60"],
    }
    for task, more in small.items():
        sets = [word for each in settings + more for word in ("--set", each)]
        kind = ["--estimator", "reinforce"] if task == "ptb" else []
        assert train([task, *quick, *kind, "--out", str(home / task), *sets]) == 0
        if task == "copy":
            assert train([task, *quick, "--model", "lstm", "--out", str(home / "lstm"), *sets]) == 0
    return home


@pytest.fixture
def recorded_sweep(tmp_path, tmp_path_factory, monkeypatch):
    """A sweep whose best trial is 1, with its weights and its run in MLflow."""
    monkeypatch.chdir(tmp_path)
    uri = fresh_sqlite(tmp_path / "store", tmp_path_factory)
    plan = make_plan("found", tracking_uri=uri)
    plan.save()
    fill(plan, [0.5, 0.2, 0.3])
    client, experiment = open_store(uri, "tardis-copy", str(tmp_path / "artifacts"))
    run = client.create_run(experiment, tags={SWEEP: plan.sweep_id, TRIAL: "1"})
    client.log_param(run.info.run_id, "seed", "0")
    client.log_artifact(run.info.run_id, str(put_weights(plan, 1)), "checkpoint")
    client.set_terminated(run.info.run_id)
    return plan, client, run.info.run_id
