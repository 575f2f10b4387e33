"""The runs to compare, from sweeps and from MLflow, and the runs that cannot be compared."""

import pandas as pd
import pytest
from mlflow import MlflowClient

from orchestrator.compare_command import main
from orchestrator.comparison import runs, tables
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.tracker import Tracker
from tardis_core.errors import UserError
from tests.support.comparisons import compared, data_of, start
from tests.support.mlflow_stores import PATIENCE, fresh_sqlite
from tests.support.servers import free_port
from tests.support.sweep_logs import (
    COMPLETE,
    comparison_plan,
    fill_comparison,
    params_of,
    record,
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def test_the_test_split_is_compared_where_every_run_has_it():
    plan = comparison_plan(labels=("a",), seeds=(1, 2))
    start(plan)
    record(plan, 0, [0.5], COMPLETE, params_of(3e-3, 1), test=0.7)
    record(plan, 1, [0.4], COMPLETE, params_of(3e-3, 2))
    assert data_of(plan).split == "valid"
    record(plan, 1, [], None, params_of(3e-3, 2), test=0.6)
    record(plan, 1, [], COMPLETE, params_of(3e-3, 2))
    comparison = data_of(plan)
    assert comparison.split == "test"
    assert tables.by_seed(comparison)["a"].tolist() == [0.7, 0.6]


def test_failed_runs_are_counted_and_a_group_without_results_is_left_out():
    _, comparison = compared({"a": [0.4, None, None], "b": [None] * 3}, seeds=(1, 2, 3))
    (group,) = comparison.groups
    assert (group.label, len(group.runs), group.failed) == ("a", 1, 2)


@pytest.fixture
def store(here, tmp_path_factory):
    """A store with two candidates of two seeds each; returns its address and the run ids."""
    uri = fresh_sqlite(here, tmp_path_factory)
    plan = comparison_plan(labels=("a", "b"), seeds=(1, 2))
    start(plan)
    for job in plan.jobs():
        rate = {"a": 3e-3, "b": 1e-3}[job.candidate.label]
        record(plan, job.number, [job.seed + rate], COMPLETE, params_of(rate, job.seed))
    log = EventLog(plan.folder)
    tracker = Tracker(log, uri, "tardis-copy", plan.sweep_id)
    tracker.start()
    assert tracker.close(PATIENCE) == 0
    log.close()
    return uri


@pytest.mark.slow
def test_runs_of_mlflow_are_grouped_by_all_but_the_seed(here, store, capsys):
    uri, client = store, MlflowClient(store)
    every = client.search_runs([client.get_experiment_by_name("tardis-copy").experiment_id])
    ids = [run.info.run_id for run in every if "tardis.trial" in run.data.tags]
    comparison = runs.of_runs(ids, uri)
    labels = [
        "tardis gumbel training.learning_rate=0.001",
        "tardis gumbel training.learning_rate=0.003",
    ]
    assert sorted(group.label for group in comparison.groups) == labels
    table = tables.by_seed(comparison)
    assert table[labels[0]].tolist() == [1.001, 2.001]
    assert main(["--runs", ",".join([*ids, ids[0]]), "--tracking-uri", uri]) == 0
    table = pd.read_csv(here / "comparisons" / "copy" / "comparison.csv")
    assert table["runs"].tolist() == [2, 2]  # a run that is named twice counts once
    assert main(["--runs", ids[0], "--tracking-uri", uri, "--out", "/dev/null/x"]) == 2
    assert "--out must be a folder that can be written, not /dev/null/x" in capsys.readouterr().err
    client.log_metric(ids[0], "valid_bce", float("nan"), timestamp=1, step=0)
    assert runs.of_runs(ids[:1], uri).groups[0].runs[0].valid < 3
    other = client.create_run(every[0].info.experiment_id, tags={"mlflow.parentRunId": "p"})
    for key, value in {**client.get_run(ids[0]).data.params, "task": "recall"}.items():
        client.log_param(other.info.run_id, key, value)
    assert main(["--runs", f"{ids[0]},{other.info.run_id}", "--tracking-uri", uri]) == 2
    assert "only runs of one task can be compared, not of copy, recall" in capsys.readouterr().err
    client.set_tag(ids[1], "state", "failed")
    assert main(["--runs", ",".join(ids), "--tracking-uri", uri]) == 2
    assert f"run {ids[1]} is failed; leave it out" in capsys.readouterr().err
    (parent,) = [run.info.run_id for run in every if "tardis.trial" not in run.data.tags]
    assert main(["--runs", parent, "--tracking-uri", uri]) == 2
    assert "is not a trial" in capsys.readouterr().err
    assert main(["--runs", "nobody", "--tracking-uri", uri]) == 2
    assert "there is no run 'nobody'" in capsys.readouterr().err


def test_the_best_of_a_run_of_mlflow_is_sought_where_its_trainer_sought_it(store):
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("tardis-copy").experiment_id
    sweep = client.create_run(experiment, tags={"data": "copy"}).info.run_id
    run = client.create_run(experiment, tags={"mlflow.parentRunId": sweep})
    phase = {"training.updates": "40", "memory.vary_cells_from": "0.5"}
    for name, value in {**params_of(1e-3), **phase}.items():
        client.log_param(run.info.run_id, name, value)
    for update, value in ((10, 0.1), (20, 0.2), (30, 0.4), (40, 0.3)):
        client.log_metric(run.info.run_id, "valid_bce", value, step=update)
    (group,) = runs.of_runs([run.info.run_id], store).groups
    assert group.runs[0].valid == 0.3


def test_a_stand_in_is_not_compared_with_the_real_data():
    compared({"a": [0.4, 0.2]}, **{"data.sha256": "1"})
    other = comparison_plan("d", labels=("a",), seeds=(1, 2))
    start(other, data="copy-standin", **{"data.sha256": "2"})
    fill_comparison(other, {"a": [0.4, 0.2]})
    with pytest.raises(UserError, match=r"the same data .* copy \(1\) and copy-standin \(2\)"):
        runs.of_sweeps(["c", "d"])


def test_equal_labels_of_two_comparisons_are_distinguished():
    for name, values in (("one", [0.4, 0.2]), ("two", [0.1, 0.3])):
        compared({"a": values, f"only {name}": [0.5, 0.6]}, name=name)
    comparison = runs.of_sweeps(["one", "two"])
    labels = [group.label for group in comparison.groups]
    assert labels == ["one: a", "only one", "two: a", "only two"]
    assert tables.by_seed(comparison)["two: a"].tolist() == [0.1, 0.3]
    assert len(tables.differences(comparison)) == 6


def test_an_unreachable_store_is_not_mistaken_for_a_missing_run():
    uri = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(UserError, match=r"the tracking store .* cannot be used"):
        runs.of_runs(["x"], uri)
