"""python -m orchestrator.evaluate: everything about a model, written and recorded to its run."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from orchestrator import evaluate, inspect
from tardis_core.evaluate import main as core_evaluate
from tardis_core.train import main as train


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def evaluation(run: Path, *words: str) -> dict[str, float]:
    assert evaluate.main([str(run), "--out", f"e/{run.name}", *words]) == 0
    (path,) = Path("e", run.name).glob("*.json")
    return json.loads(path.read_text())["metrics"]


def test_both_heads_of_ptb_are_evaluated(runs):
    metrics = evaluation(runs / "ptb")
    assert set(metrics) == {"test_bpc", "test_memory_bpc"}
    result = json.loads((runs / "ptb" / "result.json").read_text())
    assert metrics["test_bpc"] == pytest.approx(result["test"]["bpc"], rel=1e-6)


def test_copy_is_evaluated_by_length(runs, capsys):
    evaluation(runs / "copy", "--split", "valid")
    rows = Path("e/copy/valid_cost_by_length.csv").read_text().splitlines()
    assert rows[0].startswith("length,")
    assert rows[-1].startswith("30,")  # six times the greatest length of the scale smoke
    assert Path("e/copy/valid_cost_by_length.png").exists()
    assert "binary cross-entropy (nats" in capsys.readouterr().out


def test_strokes_and_snli_are_evaluated_by_class(runs):
    digits = evaluation(runs / "strokes")
    assert {"test_error", "test_digits_0_accuracy", "test_digits_9_accuracy"} <= set(digits)
    relations = evaluation(runs / "snli")
    assert {"test_accuracy", "test_relations_neutral_accuracy"} <= set(relations)


def test_a_model_of_a_gpu_needs_none_to_be_evaluated_and_inspected(runs, monkeypatch):
    shutil.copytree(runs / "copy", "gpu")
    for path in Path("gpu").glob("*.pt"):
        values = torch.load(path, weights_only=True)
        with monkeypatch.context() as patch:
            patch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
            torch.save(values, path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert evaluation(Path("gpu")) == evaluation(runs / "copy")
    assert inspect.main(["gpu", "--out", "plots"]) == 0


@pytest.mark.slow
def test_results_are_recorded_in_the_run(recorded_sweep):
    plan, client, run_id = recorded_sweep
    assert evaluate.main(["found"]) == 0
    kept = json.loads((plan.folder / "best/trial-1/evaluate/test.json").read_text())["metrics"]
    run = client.get_run(run_id)
    assert run.data.metrics["test_bce"] == pytest.approx(kept["test_bce"])
    assert run.info.status == "FINISHED"
    assert "evaluate/test_cost_by_length.png" in {
        each.path for each in client.list_artifacts(run_id, "evaluate")
    }
    assert evaluate.main(["found"]) == 0
    assert len(client.get_metric_history(run_id, "test_bce")) == 1


@pytest.mark.slow
def test_results_that_cannot_be_written_or_recorded_are_one_line(
    recorded_sweep, capsys, monkeypatch
):
    for command in (evaluate, inspect):
        assert command.main(["found", "--out", "/dev/null/x"]) == 2
        message = capsys.readouterr().err
        assert "--out must be a folder that can be written, not /dev/null/x" in message

    def refuse(*_):
        raise MlflowException("no room\nfor it")

    monkeypatch.setattr(MlflowClient, "log_artifact", refuse)
    assert evaluate.main(["found"]) == 2
    message = capsys.readouterr().err
    assert "the results are written, but cannot be recorded in the run" in message
    assert message.count("\n") == 1


def test_the_core_command_prints_the_same_table(runs, capsys):
    for task in ("copy", "ptb", "strokes"):
        evaluation(runs / task)
        ours = capsys.readouterr().out
        assert core_evaluate([str(runs / task)]) == 0
        theirs = capsys.readouterr().out
        assert ours.startswith(theirs)
        assert ours.removeprefix(theirs) == f"written to e/{task}\n"


def test_metrics_that_a_model_does_not_have_are_named(runs, capsys):
    evaluation(runs / "ptb")
    assert "not available" not in capsys.readouterr().out
    quick = ["--scale", "smoke", "--data", "standin", "--model", "lstm", "--out", "lstm"]
    settings = ["model.hidden=8", "training.updates=2", "task.evaluation_symbols=200"]
    assert train(["ptb", *quick, *(word for each in settings for word in ("--set", each))]) == 0
    evaluation(Path("lstm"))
    assert "memory-only head, p(y | r, x): not available for this model" in capsys.readouterr().out


def test_json_is_all_that_is_printed(runs, capsys):
    metrics = evaluation(runs / "copy", "--json")
    assert json.loads(capsys.readouterr().out)["bce"] == metrics["test_bce"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "name"), [(("--reads", "uniform"), "uniform_reads"), (("--cells", "5"), "5_cells")]
)
def test_another_memory_does_not_replace_the_result_of_the_run(recorded_sweep, words, name):
    _, client, run_id = recorded_sweep
    assert evaluate.main(["found"]) == 0
    before = client.get_run(run_id).data.metrics
    assert evaluate.main(["found", *words]) == 0
    after = client.get_run(run_id).data.metrics
    assert after.keys() - before.keys() == {f"test_{name}_bce"}
    assert before.items() <= after.items()
