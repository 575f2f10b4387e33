"""A single training recorded in MLflow: once, also if it is resumed."""

from mlflow import MlflowClient

from orchestrator.api import train
from orchestrator.commands import train as command
from tests.support.mlflow_stores import fresh_sqlite

TINY = {
    "model.hidden": 8,
    "training.updates": 4,
    "training.evaluate_every": 2,
    "training.batch": 4,
    "task.valid_sequences": 8,
    "task.test_sequences": 8,
}


def test_a_training_is_one_run_with_its_settings_curves_and_result(
    tmp_path, tmp_path_factory, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    uri = fresh_sqlite(tmp_path / "store", tmp_path_factory)
    run = train("copy", scale="smoke", set=TINY, out="one", tracking_uri=uri, tensorboard=True)
    assert run.finished
    assert list((run.folder / "tensorboard").iterdir())
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("tardis-copy").experiment_id
    (recorded,) = client.search_runs([experiment])
    assert recorded.info.status == "FINISHED"
    assert recorded.data.params["model.hidden"] == "8"
    assert recorded.data.tags["data"] == "copy"
    assert recorded.data.metrics["test_bce"] == run.result["test"]["bce"]
    train(resume="one", tracking_uri=uri)
    (again,) = client.search_runs([experiment])
    history = client.get_metric_history(again.info.run_id, "valid_bce")
    assert [each.step for each in history] == [2, 4]
    capsys.readouterr()
    assert (
        command(["copy", "--out", "two", "--tracking-uri", "sqlite:////proc/nowhere/mlflow.db"])
        == 2
    )
    assert "the tracking store must be usable" in capsys.readouterr().err
    assert not (tmp_path / "two").exists()
