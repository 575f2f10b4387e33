"""A damaged, truncated or deleted event log is rebuilt from the study, checkpoints and MLflow."""

import pytest
from mlflow import MlflowClient

from orchestrator.doctor import main as doctor
from orchestrator.doctor import reconcile
from orchestrator.execution.checkpoints import CHECKPOINT
from orchestrator.execution.recovery import check_complete, recover
from orchestrator.results.records import Records
from orchestrator.tracking.event_log import LOG, EventLog, open_log
from orchestrator.tracking.events import SweepEnded, SweepStarted
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.training import checkpoint
from tests.support.mlflow_stores import fresh_sqlite
from tests.support.sweep_logs import comparison_plan, fill, fill_comparison, make_plan

VALUES = [0.5, 0.2, None, (0.9,), 0.3]


@pytest.fixture
def sweep(tmp_path, tmp_path_factory, monkeypatch):
    """A finished search that MLflow has, too."""
    monkeypatch.chdir(tmp_path)
    plan = make_plan(tracking_uri=fresh_sqlite(tmp_path, tmp_path_factory), trials=len(VALUES))
    plan.save()
    log = EventLog(plan.folder)
    log.append(SweepStarted("s"))
    log.close()
    fill(plan, VALUES)
    log = EventLog(plan.folder)
    log.append(SweepEnded("FINISHED"))
    reconcile(plan, log)
    log.close()
    return plan


def overwrite(lines):
    return [*lines[:4], b"\xff\0 garbage\n", *lines[5:]]


def leaderboard(plan):
    return Records.load(plan).table().astype(str).to_dict()


def points(plan):
    """Every metric value that MLflow has of the sweep."""
    client = MlflowClient(plan.tracking_uri)
    experiment = client.get_experiment_by_name(plan.experiment)
    runs = client.search_runs([experiment.experiment_id])
    return sorted(
        (run.info.run_name, run.info.status, name, each.step, each.value)
        for run in runs
        for name in run.data.metrics
        for each in client.get_metric_history(run.info.run_id, name)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [overwrite, lambda lines: lines[: len(lines) // 2], lambda lines: []],
    ids=["garbage in the middle", "truncated", "deleted"],
)
def test_the_doctor_rebuilds_the_log(sweep, damage, capsys):
    path = sweep.folder / LOG
    before, recorded = leaderboard(sweep), points(sweep)
    path.write_bytes(b"".join(damage(path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(UserError, match=r"doctor s --fix"):
        check_complete(sweep, open_log(sweep.folder))
    if path.read_bytes().count(b"garbage") == 0:
        open_log(sweep.folder).close()
    assert doctor(["s", "--fix"]) == 0, capsys.readouterr().out
    open_log(sweep.folder).close()
    assert leaderboard(sweep) == before
    assert points(sweep) == recorded


def test_without_mlflow_the_checkpoints_know_the_validations_and_the_rest_is_named(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    plan = make_plan(trials=2)
    fill(plan, [0.5, (0.9,)])
    config = make_config("copy", scale="smoke", overrides={"model.hidden": 16})
    rows = [{"update": 10.0, "valid_bce": 1.5}, {"update": 20.0, "valid_bce": 0.5}]
    folder = tmp_path / plan.ray_storage / "trials-0" / "trial-0-x" / "checkpoint_000001"
    folder.mkdir(parents=True)
    checkpoint.save(folder / CHECKPOINT, {"config": config.to_dict(), "history": rows})
    (plan.folder / LOG).unlink()
    log = open_log(plan.folder)
    assert recover(plan, log, {}) == ["1 of 1 validations of trial 1 are lost"]
    check_complete(plan, log)
    log.close()
    trials = Records.load(plan).trials
    assert [row["valid_bce"] for row in trials[0].rows] == [1.5, 0.5]
    assert trials[0].params["model.hidden"] == "16"
    assert [trials[number].state for number in (0, 1)] == ["complete", "pruned"]


def test_a_comparison_whose_log_is_gone_is_not_begun_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = comparison_plan()
    fill_comparison(plan, {"a": [0.1, 0.2, 0.3], "b": [0.4, 0.5, 0.6]})
    folder = tmp_path / plan.ray_storage / "trials-0" / "trial-2-x" / "checkpoint_000001"
    folder.mkdir(parents=True)
    (folder / CHECKPOINT).touch()
    (plan.folder / LOG).unlink()
    log = open_log(plan.folder)
    with pytest.raises(UserError, match=r"lacks trials of the study or the storage \(2\)"):
        check_complete(plan, log)
    log.close()
