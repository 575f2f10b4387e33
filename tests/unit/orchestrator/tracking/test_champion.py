"""The champion in a real registry, and the models that are registered."""

import json
from contextlib import closing

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

from orchestrator.models import export
from orchestrator.tracking import champion
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import (
    Metrics,
    Model,
    SweepEnded,
    SweepStarted,
    TrialEnded,
    TrialStarted,
)
from orchestrator.tracking.logged_model import log_model
from orchestrator.tracking.mlflow_store import prepare_store
from orchestrator.tracking.tracker import Tracker
from search_spaces import DEFAULT_MODELS, describe, load
from tardis_core.paper import PAPER_ESTIMATORS
from tests.support.mlflow_stores import PATIENCE, fresh_sqlite
from tests.support.sweep_logs import make_plan, put_weights


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with its database; each test uses a name of its own in it."""
    uri = fresh_sqlite(tmp_path_factory.mktemp("store"), tmp_path_factory)
    return MlflowClient(uri), prepare_store(uri, "champions"), uri


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What stands for the files of a model where nobody loads them."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "MLmodel").write_text("{}")
    return str(folder)


@pytest.fixture
def offer(store, files):
    client, experiment, _ = store

    def offer(name, value, run_id=None, better="lower", **tags):
        run_id = run_id or client.create_run(experiment).info.run_id
        tags = {"measured_on": "ptb 12", "data.real": "True", "scale": "small", **tags}
        model = Model(0, files, name, value, better, tags, "one of them", "all of them")
        return champion.offer(client, log_model(client, run_id, model), model), run_id

    return offer


@pytest.mark.slow
def test_the_first_is_the_champion_and_a_better_one_replaces_it(store, offer):
    client = store[0]
    assert champion.current_champion(client, "first") is None
    assert offer("first", 1.5)[0].champion
    assert not offer("first", 1.6)[0].champion
    assert not offer("first", 1.5)[0].champion
    verdict, run_id = offer("first", 1.4)
    assert verdict.champion
    current = champion.current_champion(client, "first")
    assert (current.run_id, float(current.tags["value"]), int(current.version)) == (run_id, 1.4, 2)


def test_a_champion_that_was_trained_longer_and_is_better_now_replaces_itself(store, offer):
    client = store[0]
    _, run_id = offer("longer", 1.5)
    assert offer("longer", 1.3, run_id)[0].champion
    assert not offer("longer", 1.5, run_id)[0].champion  # delivered again
    current = champion.current_champion(client, "longer")
    assert (float(current.tags["value"]), int(current.version)) == (1.3, 2)
    values = [each.tags["value"] for each in client.search_model_versions("name = 'longer'")]
    assert sorted(values) == ["1.3", "1.5"]


def test_where_more_is_better(store, offer):
    assert offer("more", 60.0, better="higher")[0].champion
    assert not offer("more", 59.0, better="higher")[0].champion
    assert offer("more", 61.0, better="higher")[0].champion


def test_other_data_cannot_be_compared(store, offer):
    offer("data", 1.5)
    verdict, _ = offer("data", 0.5, measured_on="other 34")
    assert not verdict.champion
    assert "other data" in verdict.reason


def test_models_that_learned_by_another_curriculum_are_measured_on_the_same(store, offer):
    measured = "copy, task.longest=5, task.grow_share={}, task.draws={}, task.valid_sequences=9"
    offer("curriculum", 0.5, measured_on=measured.format(0.8, 1))
    assert offer("curriculum", 0.4, measured_on=measured.format(0.0, 3))[0].champion
    longer = measured.replace("longest=5", "longest=6").format(0.0, 3)
    assert not offer("curriculum", 0.3, measured_on=longer)[0].champion


def test_the_settings_of_copy_that_are_searched_by_default_are_its_curriculum():
    rows = describe(load("copy"), "smoke", PAPER_ESTIMATORS, DEFAULT_MODELS)
    assert {name for name, _ in rows if name.startswith("task.")} == set(champion.CURRICULUM)


def test_real_data_goes_before_a_stand_in_and_a_greater_scale_before_a_smaller(store, offer):
    standin = {"measured_on": "ptb-standin 56", "data.real": "False"}
    assert offer("rank", 0.1, **standin, scale="smoke")[0].champion
    assert offer("rank", 2.0, scale="smoke")[0].champion
    assert not offer("rank", 0.01, **standin, scale="paper")[0].champion
    assert offer("rank", 3.0, scale="paper")[0].champion
    assert not offer("rank", 0.5, scale="small")[0].champion


def test_offering_twice_registers_once(store, offer):
    client = store[0]
    _, run_id = offer("twice", 1.5)
    assert offer("twice", 1.5, run_id=run_id)[0].champion
    assert len(client.search_model_versions("name = 'twice'")) == 1


def test_a_version_whose_maker_was_killed_before_the_alias_is_found_again(store, offer):
    client = store[0]
    _, run_id = offer("killed", 1.5)
    client.delete_registered_model_alias("killed", champion.ALIAS)
    assert offer("killed", 1.5, run_id=run_id)[0].champion
    assert champion.current_champion(client, "killed").run_id == run_id
    assert len(client.search_model_versions("name = 'killed'")) == 1


def test_a_champion_that_somebody_chose_by_hand_stays(store, offer):
    client, experiment, _ = store
    client.create_registered_model("by-hand")
    run_id = client.create_run(experiment).info.run_id
    version = client.create_model_version("by-hand", "somewhere", run_id).version
    client.set_registered_model_alias("by-hand", champion.ALIAS, version)
    verdict, _ = offer("by-hand", 1.5)
    assert not verdict.champion
    assert champion.current_champion(client, "by-hand").run_id == run_id


def deliver(uri, plan, folder):
    """Record a sweep with one trial, whose model is offered, and deliver everything twice."""
    tags = {"measured_on": "ptb-standin", "data.real": "False", "scale": "smoke"}
    tags["metric"] = "valid_bpc"
    model = Model(0, str(folder), "tardis-ptb", 2.5, "lower", tags, "one of them", "all of them")
    with closing(EventLog(plan.folder)) as log:
        log.append(
            SweepStarted("s", {"data": "ptb-standin", "data.sha256": "ab" * 32}),
            TrialStarted(0, {"memory.cells": 8}),
            Metrics(0, 10, {"valid_bpc": 2.5}),
            Metrics(0, 20, {"valid_bpc": 2.6, "test_bpc": 2.7}),
            TrialEnded(0, "FINISHED"),
            model,
            SweepEnded("FINISHED"),
        )
        for _ in range(2):
            log.mark_sent(0)
            tracker = Tracker(log, uri, "champions", plan.sweep_id)
            tracker.start()
            assert tracker.close(PATIENCE) == 0
            assert tracker.refused == 0


@pytest.mark.slow
def test_the_registered_model_loads_by_its_alias_and_predicts_without_pickle(
    store, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    _, _, uri = store
    plan = make_plan()
    export.save(put_weights(plan, 0, "ptb"), tmp_path / "model")
    deliver(uri, plan, tmp_path / "model")

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
    check_logged_model(store)


def check_logged_model(store):
    """Check that the champion is a logged model with its metrics, once, and described."""
    client, experiment, _ = store
    version = champion.current_champion(client, "tardis-ptb")
    assert version.description == "one of them"
    assert client.get_registered_model("tardis-ptb").description == "all of them"
    (logged,) = client.search_logged_models([experiment], "name = 'tardis-ptb'")
    assert (logged.artifact_location, str(logged.status)) == (version.source, "READY")
    assert logged.tags["mlflow.note.content"] == "one of them"
    assert json.loads(logged.tags["mlflow.modelVersions"])[0]["name"] == "tardis-ptb"
    assert logged.params == {"memory.cells": "8"}
    assert {each.key: each.value for each in logged.metrics} == {"valid_bpc": 2.5, "test_bpc": 2.7}
    assert {each.dataset_name for each in logged.metrics} == {"ptb-standin"}
    run = client.get_run(logged.source_run_id)
    assert [each.model_id for each in run.outputs.model_outputs] == [logged.model_id]
    history = client.get_metric_history(run.info.run_id, "valid_bpc")
    assert [(each.step, each.value) for each in history] == [(10, 2.5), (20, 2.6)]


def test_a_model_takes_sequences_of_any_length(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    export.save(put_weights(make_plan(), 0, "copy"), tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    prediction = model.predict(np.zeros((3, 11, 10), np.float32))
    assert prediction.shape == (3, 11, 8)
    assert ((prediction > 0) & (prediction < 1)).all()
