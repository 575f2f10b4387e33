"""A trained model is found by every name it has, and what is found out is recorded back to it."""

import json
import re
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from orchestrator import evaluate, inspect, sample
from orchestrator.models import lookup
from orchestrator.tracking.mlflow_runs import SWEEP, TRIAL
from orchestrator.tracking.mlflow_store import open_store
from tardis_core.errors import UserError
from tardis_core.train import main as train
from tests.support.mlflow_stores import fresh_sqlite
from tests.support.sweep_logs import fill, make_plan, put_weights

NO_STORE = "sqlite:///absent.db"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
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
def recorded_sweep(tmp_path, tmp_path_factory):
    """A sweep whose best trial is 1, with its weights and its run in MLflow."""
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


# Finding


def test_a_run_is_found_by_its_folder_or_its_checkpoint(runs):
    by_folder = lookup.find(str(runs / "copy"), NO_STORE)
    by_file = lookup.find(str(runs / "copy" / "best.pt"), NO_STORE)
    assert by_folder.config == by_file.config
    assert (by_folder.config.task, by_folder.config.model) == ("copy", "tardis")
    assert by_folder.recorded is None
    assert by_folder.folder == runs / "copy"
    assert by_file.folder == runs / "copy" / "best"
    assert "copy, tardis gumbel, scale smoke, seed 0" in by_folder.title


def test_the_name_of_a_stand_in_stands_in_the_title_and_its_data_is_taken(runs):
    found = lookup.find(str(runs / "snli"), NO_STORE)
    assert found.title.startswith("snli-standin, ")
    assert found.task().data.provenance.name == "snli-standin"


def test_a_sweep_is_its_best_trial(recorded_sweep):
    plan, _, run_id = recorded_sweep
    for name in ("found", "sweeps/found"):
        found = lookup.find(name, NO_STORE)
        assert found.source == plan.folder / "best/trial-1/best.pt"
        assert found.recorded == (plan.tracking_uri, run_id)


def test_the_data_of_a_sweep_is_taken_again_unless_another_is_named(tmp_path):
    (tmp_path / "texts").mkdir()
    plan = make_plan("texts", data_dir=str(tmp_path / "texts"), data="standin")
    plan.save()
    fill(plan, [0.4])
    put_weights(plan, 0, "ptb")
    found = lookup.find("texts", NO_STORE)
    assert found.task().data.provenance.name == "ptb-standin"
    (tmp_path / "texts").rmdir()
    with pytest.raises(UserError, match="must be a readable directory"):
        replace(found, data="auto").task(data="real")
    assert found.task(str(tmp_path)).data.provenance.name == "ptb-standin"


def test_a_sweep_whose_store_is_away_is_found_all_the_same():
    plan = make_plan("alone", tracking_uri=NO_STORE)
    plan.save()
    fill(plan, [0.4])
    put_weights(plan, 0)
    assert lookup.find("alone", NO_STORE).recorded is None
    assert not Path("absent.db").exists()


def test_a_run_of_mlflow_is_found_by_its_id(recorded_sweep):
    plan, _, run_id = recorded_sweep
    found = lookup.find(run_id, plan.tracking_uri)
    assert found.recorded == (plan.tracking_uri, run_id)
    assert found.network("cpu").model.config.hidden == 16


def test_the_run_of_a_whole_sweep_is_its_best_trial(recorded_sweep, monkeypatch, tmp_path):
    plan, client, run_id = recorded_sweep
    experiment = client.get_run(run_id).info.experiment_id
    parent = client.create_run(experiment, tags={SWEEP: plan.sweep_id}).info.run_id
    assert lookup.find(parent, plan.tracking_uri).recorded == (plan.tracking_uri, run_id)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with refusal("is that of a whole sweep", "give the run of one of its trials"):
        lookup.find(parent, plan.tracking_uri)


def refusal(*words: str):
    return pytest.raises(UserError, match=".*".join(words))


def test_what_is_not_found_is_said_in_one_sentence(recorded_sweep, tmp_path):
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


def test_a_sweep_without_a_result_or_weights_says_so():
    plan = make_plan("young", tracking_uri=NO_STORE)
    plan.save()
    with refusal("no trial of the sweep 'young'"):
        lookup.find("young", NO_STORE)
    fill(plan, [0.3])
    with refusal("the weights of trial 0", "are neither in"):
        lookup.find("young", NO_STORE)


def test_other_data_than_that_of_the_run_is_refused(runs):
    found = lookup.find(str(runs / "ptb"), NO_STORE)
    changed = {**found.values["provenance"], "sha256": "0" * 64}
    other = lookup.Trained(
        found.source, {**found.values, "provenance": changed}, found.config, found.folder
    )
    with refusal("was trained on ptb-standin", "give that data"):
        other.task()


# inspect


def test_inspect_draws_and_says_how_the_memory_is_used(runs, capsys, tmp_path):
    before = plt.get_fignums()  # other tests may have theirs
    assert inspect.main([str(runs / "ptb"), "--example", "2", "--out", "pictures"]) == 0
    assert {path.name for path in Path("pictures").iterdir()} == {
        "memory_access.png",
        "path_lengths.png",
    }
    said = capsys.readouterr().out
    assert "ptb-standin, tardis reinforce" in said
    assert "mean distance of a wormhole" in said
    assert plt.get_fignums() == before


def test_inspect_puts_its_pictures_into_the_run(recorded_sweep):
    _, client, run_id = recorded_sweep
    assert inspect.main(["found"]) == 0
    paths = {each.path for each in client.list_artifacts(run_id, "inspect")}
    assert paths == {"inspect/memory_access.png", "inspect/path_lengths.png"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["lstm"], "reads one memory cell a step"),
        (["copy", "--example", "9999"], "an example is a number from 0 to 15, not 9999"),
        (["copy", "--split", "train"], "--split must be one of valid, test, not 'train'"),
    ],
)
def test_inspect_refuses_in_one_line(runs, capsys, words, reason):
    assert inspect.main([str(runs / words[0]), *words[1:], "--out", "pictures"]) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1
    assert not Path("pictures").exists()


# evaluate


def evaluation(run: Path, *words: str) -> dict[str, float]:
    assert evaluate.main([str(run), "--out", f"e/{run.name}", *words]) == 0
    (figures,) = Path("e", run.name).glob("*.json")
    return json.loads(figures.read_text())["metrics"]


def test_evaluate_gives_both_heads_of_ptb(runs):
    figures = evaluation(runs / "ptb")
    assert set(figures) == {"test_bpc", "test_memory_bpc"}
    result = json.loads((runs / "ptb" / "result.json").read_text())
    assert figures["test_bpc"] == pytest.approx(result["test"]["bpc"], rel=1e-6)


def test_evaluate_gives_the_curve_of_copy(runs, capsys):
    evaluation(runs / "copy", "--split", "valid")
    rows = Path("e/copy/valid_cost_by_length.csv").read_text().splitlines()
    assert rows[0].startswith("length,")
    assert rows[-1].startswith("25,")  # five times the greatest length of the scale smoke
    assert Path("e/copy/valid_cost_by_length.png").exists()
    assert "binary cross-entropy (nats per bit) by length" in capsys.readouterr().out


def test_evaluate_takes_strokes_and_snli_apart(runs):
    digits = evaluation(runs / "strokes")
    assert {"test_error", "test_digits_0_accuracy", "test_digits_9_accuracy"} <= set(digits)
    relations = evaluation(runs / "snli")
    assert {"test_accuracy", "test_relations_neutral_accuracy"} <= set(relations)


def test_evaluate_records_to_the_run(recorded_sweep):
    plan, client, run_id = recorded_sweep
    assert evaluate.main(["found"]) == 0
    kept = json.loads((plan.folder / "best/trial-1/evaluate/test.json").read_text())["metrics"]
    run = client.get_run(run_id)
    assert run.data.metrics["test_bce"] == pytest.approx(kept["test_bce"])
    assert run.info.status == "FINISHED"
    assert "evaluate/test_cost_by_length.png" in {
        each.path for each in client.list_artifacts(run_id, "evaluate")
    }


def test_what_cannot_be_written_or_recorded_is_one_line(recorded_sweep, capsys, monkeypatch):
    for command in (evaluate, inspect):
        assert command.main(["found", "--out", "/dev/null/x"]) == 2
        said = capsys.readouterr().err
        assert "--out must be a folder that can be written, not /dev/null/x" in said

    def refuse(*_):
        raise MlflowException("no room\nfor it")

    monkeypatch.setattr(MlflowClient, "log_artifact", refuse)
    assert evaluate.main(["found"]) == 2
    said = capsys.readouterr().err
    assert "the results are written, and cannot be recorded in the run" in said
    assert said.count("\n") == 1


# sample


def test_sample_goes_on_with_the_prompt_and_repeats(runs, capsys):
    words = [str(runs / "ptb"), "--prompt", "the ", "--length", "20", "--temperature", "0.5"]
    texts = []
    for seed in ("1", "1", "2"):
        assert sample.main([*words, "--seed", seed]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("the ")
    assert len(texts[0]) == 4 + 20 + 1


@pytest.mark.parametrize(
    ("run", "words", "reason"),
    [
        ("copy", [], "text comes from a model of ptb, and .*copy is of copy"),
        ("ptb", ["--prompt", "Ω"], "'Ω', which is not in the training text"),
        ("ptb", ["--temperature", "0"], "the temperature must be above 0"),
    ],
)
def test_sample_refuses_in_one_line(runs, capsys, run, words, reason):
    assert sample.main([str(runs / run), *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert re.search(reason, said)
