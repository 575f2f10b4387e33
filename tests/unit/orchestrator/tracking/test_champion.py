"""The champion in a real registry, and the models that are registered."""

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

from orchestrator.models import export
from orchestrator.tracking import champion
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Model, SweepEnded, SweepStarted, TrialStarted
from orchestrator.tracking.mlflow_store import prepare_store
from orchestrator.tracking.tracker import Tracker
from tests.support.mlflow_stores import PATIENCE, fresh_sqlite
from tests.support.sweep_logs import make_plan, put_weights


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with its database; each test uses a name of its own in it."""
    uri = fresh_sqlite(tmp_path_factory.mktemp("store"), tmp_path_factory)
    return MlflowClient(uri), prepare_store(uri, "champions"), uri


def offer(store, name, value, run_id=None, better="lower", **tags):
    client, experiment, _ = store
    run_id = run_id or client.create_run(experiment).info.run_id
    tags = {"measured_on": "ptb 12", "data.real": "True", "scale": "small", **tags}
    verdict = champion.offer(client, run_id, Model(0, "unused", name, value, better, tags))
    return verdict, run_id


def test_the_first_is_the_champion_and_a_better_one_replaces_it(store):
    client = store[0]
    assert champion.current_champion(client, "first") is None
    assert offer(store, "first", 1.5)[0].champion
    assert not offer(store, "first", 1.6)[0].champion
    assert not offer(store, "first", 1.5)[0].champion
    verdict, run_id = offer(store, "first", 1.4)
    assert verdict.champion
    current = champion.current_champion(client, "first")
    assert (current.run_id, float(current.tags["value"]), int(current.version)) == (run_id, 1.4, 2)


def test_where_more_is_better(store):
    assert offer(store, "more", 60.0, better="higher")[0].champion
    assert not offer(store, "more", 59.0, better="higher")[0].champion
    assert offer(store, "more", 61.0, better="higher")[0].champion


def test_other_data_cannot_be_compared(store):
    offer(store, "data", 1.5)
    verdict, _ = offer(store, "data", 0.5, measured_on="other 34")
    assert not verdict.champion
    assert "other data" in verdict.reason


def test_real_data_goes_before_a_stand_in_and_a_greater_scale_before_a_smaller(store):
    standin = {"measured_on": "ptb-standin 56", "data.real": "False"}
    assert offer(store, "rank", 0.1, **standin, scale="smoke")[0].champion
    assert offer(store, "rank", 2.0, scale="smoke")[0].champion
    assert not offer(store, "rank", 0.01, **standin, scale="paper")[0].champion
    assert offer(store, "rank", 3.0, scale="paper")[0].champion
    assert not offer(store, "rank", 0.5, scale="small")[0].champion


def test_offering_twice_registers_once(store):
    client = store[0]
    _, run_id = offer(store, "twice", 1.5)
    assert offer(store, "twice", 1.5, run_id=run_id)[0].champion
    assert len(client.search_model_versions("name = 'twice'")) == 1


def test_a_version_whose_maker_was_killed_before_the_alias_is_found_again(store):
    client = store[0]
    _, run_id = offer(store, "killed", 1.5)
    client.delete_registered_model_alias("killed", champion.ALIAS)
    assert offer(store, "killed", 1.5, run_id=run_id)[0].champion
    assert champion.current_champion(client, "killed").run_id == run_id
    assert len(client.search_model_versions("name = 'killed'")) == 1


def test_a_champion_that_somebody_chose_by_hand_stays(store):
    client, experiment, _ = store
    client.create_registered_model("by-hand")
    run_id = client.create_run(experiment).info.run_id
    version = client.create_model_version("by-hand", "somewhere", run_id).version
    client.set_registered_model_alias("by-hand", champion.ALIAS, version)
    verdict, _ = offer(store, "by-hand", 1.5)
    assert not verdict.champion
    assert champion.current_champion(client, "by-hand").run_id == run_id


def test_the_registered_model_loads_by_its_alias_and_predicts_without_pickle(
    store, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    _, _, uri = store
    plan = make_plan()
    export.save(put_weights(plan, 0, "ptb"), tmp_path / "model")
    tags = {"measured_on": "ptb-standin", "data.real": "False", "scale": "smoke"}
    log = EventLog(plan.folder)
    tracker = Tracker(log, uri, "champions", plan.sweep_id)
    log.append(
        SweepStarted("s"),
        TrialStarted(0),
        Model(0, str(tmp_path / "model"), "tardis-ptb", 2.5, "lower", tags),
        SweepEnded("FINISHED"),
    )
    tracker.start()
    assert tracker.close(PATIENCE) == 0
    log.close()

    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    mlflow.set_tracking_uri(uri)
    try:
        model = mlflow.pyfunc.load_model("models:/tardis-ptb@champion")
    finally:
        mlflow.set_tracking_uri(None)
    prediction = model.predict(pd.DataFrame({"text": ["the "]}), params={"length": 7, "seed": 3})
    assert len(prediction["continuation"][0]) == 7
    assert prediction["bits_per_symbol"][0] > 0
    assert model.metadata.get_input_schema().input_names() == ["text"]
    assert not list((tmp_path / "model").rglob("*.pkl"))


def test_a_model_takes_sequences_of_any_length(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    export.save(put_weights(make_plan(), 0, "copy"), tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    prediction = model.predict(np.zeros((3, 11, 10), np.float32))
    assert prediction.shape == (3, 11, 8)
    assert ((prediction > 0) & (prediction < 1)).all()
