"""A trained model is found by every name it has."""

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.models import lookup
from orchestrator.tracking.mlflow_runs import SWEEP
from tardis_core.errors import UserError
from tests.support.sweep_logs import (
    COMPLETE,
    comparison_plan,
    fill,
    make_plan,
    params_of,
    put_weights,
    record,
)

NO_STORE = "sqlite:///absent.db"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_a_run_is_found_by_its_folder_or_its_checkpoint(runs):
    by_folder = lookup.find(str(runs / "copy"), NO_STORE)
    by_file = lookup.find(str(runs / "copy" / "best.pt"), NO_STORE)
    assert by_folder.config == by_file.config
    assert (by_folder.config.task, by_folder.config.model) == ("copy", "tardis")
    assert by_folder.recorded is None
    assert by_folder.folder == runs / "copy"
    assert by_file.folder == runs / "copy" / "best"
    assert "copy, tardis gumbel, scale smoke, seed 0" in by_folder.title


def test_a_run_on_a_stand_in_says_so_and_uses_it_again(runs):
    model = lookup.find(str(runs / "snli"), NO_STORE)
    assert model.title.startswith("snli-standin, ")
    assert model.task().data.provenance.name == "snli-standin"


def test_a_sweep_is_its_best_trial(recorded_sweep):
    plan, _, run_id = recorded_sweep
    for name in ("found", "sweeps/found"):
        model = lookup.find(name, NO_STORE)
        assert model.source == plan.folder / "best/trial-1/best.pt"
        assert model.recorded == (plan.tracking_uri, run_id)


def test_the_data_of_a_sweep_is_used_again_unless_other_data_is_named(tmp_path):
    (tmp_path / "texts").mkdir()
    plan = make_plan("texts", data_dir=str(tmp_path / "texts"), data="standin")
    plan.save()
    fill(plan, [0.4])
    put_weights(plan, 0, "ptb")
    model = lookup.find("texts", NO_STORE)
    assert model.task().data.provenance.name == "ptb-standin"
    (tmp_path / "texts").rmdir()
    with pytest.raises(UserError, match="must be a readable directory"):
        replace(model, data="auto").task(data="real")
    assert model.task(str(tmp_path)).data.provenance.name == "ptb-standin"


def test_a_sweep_is_found_while_its_store_is_away():
    plan = make_plan("alone", tracking_uri=NO_STORE)
    plan.save()
    fill(plan, [0.4])
    put_weights(plan, 0)
    assert lookup.find("alone", NO_STORE).recorded is None
    assert not Path("absent.db").exists()


def test_an_mlflow_run_is_found_by_its_id(recorded_sweep):
    plan, _, run_id = recorded_sweep
    model = lookup.find(run_id, plan.tracking_uri)
    assert model.recorded == (plan.tracking_uri, run_id)
    assert model.network("cpu").model.config.hidden == 16


def test_the_run_of_a_whole_sweep_is_its_best_trial(recorded_sweep, monkeypatch, tmp_path):
    plan, client, run_id = recorded_sweep
    experiment = client.get_run(run_id).info.experiment_id
    parent = client.create_run(experiment, tags={SWEEP: plan.sweep_id}).info.run_id
    assert lookup.find(parent, plan.tracking_uri).recorded == (plan.tracking_uri, run_id)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with refusal("is of a whole sweep", "give the run of one of its trials"):
        lookup.find(parent, plan.tracking_uri)


def refusal(*words: str):
    return pytest.raises(UserError, match=".*".join(words))


def test_a_run_that_does_not_exist_is_refused_in_one_sentence(recorded_sweep, tmp_path):
    plan, client, _ = recorded_sweep
    with refusal("RUN must be", r"a sweep \(found\), not 'nothing'"):
        lookup.find("nothing", plan.tracking_uri)
    with refusal("there is no run f{32}"):
        lookup.find("f" * 32, plan.tracking_uri)
    with refusal("there is no tracking store absent.db"):
        lookup.find("f" * 32, NO_STORE)
    (tmp_path / "empty").mkdir()
    with refusal("RUN must be"):
        lookup.find("empty", plan.tracking_uri)
    bare = client.create_run(client.search_experiments()[0].experiment_id).info.run_id
    with refusal(f"the run {bare} has no checkpoint/best.pt"):
        lookup.find(bare, plan.tracking_uri)


def test_a_sweep_without_a_result_or_weights_is_refused():
    plan = make_plan("young", tracking_uri=NO_STORE)
    plan.save()
    with refusal("no trial of the sweep 'young'"):
        lookup.find("young", NO_STORE)
    fill(plan, [0.3])
    with refusal("the weights of the sweep", "are lost or damaged"):
        lookup.find("young", NO_STORE)


def test_other_data_than_that_of_the_run_is_refused(runs):
    model = lookup.find(str(runs / "ptb"), NO_STORE)
    changed = {**model.values["provenance"], "sha256": "0" * 64}
    other = lookup.RecordedModel(
        model.source, {**model.values, "provenance": changed}, model.config, model.folder
    )
    with refusal("was trained on ptb-standin", "give that data"):
        other.task()


def test_a_comparison_is_the_best_candidate_by_validation():
    plan = comparison_plan("versus", seeds=(1,), tracking_uri=NO_STORE)
    plan.save()
    for number, (valid, test) in enumerate([(0.2, 0.9), (0.4, 0.1)]):
        record(plan, number, [valid], COMPLETE, params_of(3e-3, 1), test)
        put_weights(plan, number)
    assert lookup.find("versus", NO_STORE).folder == plan.folder / "best/trial-0"
